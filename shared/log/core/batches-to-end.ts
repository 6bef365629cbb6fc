/** Reads the present contents of a log and then stops. A tail would wait for more records instead. */
import type { ControlLog, LogRecord, TailOptions } from './control-log.ts';

/** Yields batches from `from` (default: the first record) up to the present end. Throws errors from `end` and `tail`. */
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

/** Returns the first record at or after `offset`, or undefined if there is none. Throws errors from `tail`. */
export async function readRecord(log: ControlLog, offset: number): Promise<LogRecord | undefined> {
  if ((await log.end()) <= offset) return undefined;
  for await (const batch of log.tail({ from: offset, recordsMax: 1 })) {
    const record = batch.records[0];
    if (record) return record;
    if (batch.nextOffset >= (await log.end())) return undefined;
  }
  return undefined;
}
