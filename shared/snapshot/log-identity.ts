/**
 * Is this still the log that was folded? Asked at every start and after every reconnect or offset error, because a topic
 * that was re-created, truncated or restored answers reads as if nothing had happened.
 */
import { emptyHead, judge, recordHash } from '../log/chain.ts';
import { type ControlLog, type LogRecord, LogReplaced, LogTruncated } from '../log/control-log.ts';

/** Junk before the first valid record is skipped, but not without end. */
const recordsBeforeGenesisMax = 10_000;

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

/** The id of the log: what its first valid record says. null where the log holds none yet. */
export async function readLogId(log: ControlLog): Promise<string | null> {
  const end = await log.end();
  if (end === 0) return null;
  let seen = 0;
  for await (const batch of log.tail({ from: 0, recordsMax: 100 })) {
    for (const record of batch.records) {
      const judgement = judge(emptyHead(), record);
      if ('accepted' in judgement) return judgement.head.log;
      seen++;
    }
    if (batch.nextOffset >= end || seen >= recordsBeforeGenesisMax) return null;
  }
  return null;
}

export interface Folded {
  readonly log: string | null;
  readonly seq: number;
  readonly headOffset: number;
  readonly head: { readonly hash: string };
}

/** Checks that the log still holds the last commit that was folded. Throws LogTruncated or LogReplaced where it does not. */
export async function checkIdentity(log: ControlLog, folded: Folded): Promise<void> {
  if (folded.seq === 0) return;
  const record = await recordAt(log, folded.headOffset);
  if (record?.offset === folded.headOffset && recordHash(record.value) === folded.head.hash) return;
  const id = await readLogId(log);
  if (id !== folded.log)
    throw new LogReplaced(`this is log ${id ?? '(empty)'}, but what was folded came from log ${folded.log}`);
  throw record
    ? new LogTruncated(`the log no longer holds commit ${folded.seq} as it was folded from it`)
    : new LogTruncated(`the log ends before commit ${folded.seq}, which was folded from it`);
}
