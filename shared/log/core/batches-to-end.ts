/** Reads what a log has now, where a tail waits for more. */
import type { ControlLog, LogRecord, TailOptions } from './control-log.ts';

/** Batch by batch, from the first record unless `from` says otherwise. Throws what `end` and a tail throw. */
export async function* batchesToEnd(
  log: ControlLog,
  { from = 0, ...options }: Partial<TailOptions> = {},
): AsyncGenerator<readonly LogRecord[]> {
  const end = await log.end();
  if (end <= from) return;
  for await (const { records, nextOffset } of log.tail({ from, ...options })) {
    yield records;
    if (nextOffset >= end) return;
  }
}

/** The first record at or behind `offset`, or undefined where the log ends before one. Throws what a tail throws. */
export async function recordAt(log: ControlLog, offset: number): Promise<LogRecord | undefined> {
  if ((await log.end()) <= offset) return undefined;
  for await (const batch of log.tail({ from: offset, recordsMax: 1 })) {
    const record = batch.records[0];
    if (record) return record;
    if (batch.nextOffset >= (await log.end())) return undefined;
  }
  return undefined;
}
