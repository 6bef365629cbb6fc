/** Checks that a log is still the one that was folded, because reading a re-created topic causes no error. */
import { type Commit, parseCommit } from '../../schemas/events/commit.ts';
import { batchesToEnd, readRecord } from '../log/core/batches-to-end.ts';
import { emptyHead, judge, recordHash } from '../log/core/chain.ts';
import {
  type ControlLog,
  type LogRecord,
  LogReplaced,
  LogTruncated,
  nextStepForCutLog,
} from '../log/core/control-log.ts';
import type { TrustedSigners } from '../log/core/trust.ts';

/** Maximum number of invalid records that are skipped while searching for a log's first valid record. */
const recordsBeforeGenesisMax = 10_000;

/** First valid record of a log, with the log's id. */
export interface Genesis {
  readonly log: string;
  readonly record: LogRecord;
}

/** Reads the log's id from its first valid record. Returns null if the log does not contain one yet. */
export async function readLogId(log: ControlLog): Promise<string | null> {
  return (await readGenesis(log))?.log ?? null;
}

/** Reads the first valid record, or null if there is none yet. Rejects with `LogTruncated` if the first records are lost. */
export async function readGenesis(log: ControlLog): Promise<Genesis | null> {
  try {
    return await findGenesis(log);
  } catch (error) {
    if (!(error instanceof LogTruncated)) throw error;
    throw new LogTruncated(`${error.message}: its first commits are missing; ${nextStepForCutLog}`, {
      cause: error,
    });
  }
}

async function findGenesis(log: ControlLog): Promise<Genesis | null> {
  let seen = 0;
  for await (const records of batchesToEnd(log, { recordsMax: 100 })) {
    for (const record of records) {
      const judgement = judge(emptyHead(), record);
      if ('accepted' in judgement) return { log: judgement.accepted.log, record };
      seen++;
    }
    if (seen >= recordsBeforeGenesisMax) return null;
  }
  return null;
}

export interface FoldedPosition {
  readonly log: string | null;
  readonly seq: number;
  readonly headOffset: number;
  readonly head: { readonly hash: string };
}

/** Thrown if the log's record at the snapshot's offset is not the commit that the snapshot names. The snapshot is wrong. */
export class WrongPosition extends Error {
  override readonly name = 'WrongPosition';
}

/** Checks that the log still contains the last folded commit. Throws `LogTruncated`, `LogReplaced` or `WrongPosition`. */
export async function checkIdentity(log: ControlLog, folded: FoldedPosition): Promise<void> {
  if (folded.seq === 0 && folded.headOffset < 0) return;
  const record = await readRecord(log, folded.headOffset);
  if (record?.offset === folded.headOffset && recordHash(record.value) === folded.head.hash)
    return checkCommit(parseCommit(record.value), folded);
  const id = await readLogId(log);
  if (id !== folded.log)
    throw new LogReplaced(`this is log ${id ?? '(empty)'}, but what was folded came from log ${folded.log}`);
  throw record
    ? new LogTruncated(`the log no longer holds commit ${folded.seq} as it was folded from it`)
    : new LogTruncated(`the log ends before commit ${folded.seq}, which was folded from it`);
}

/**
 * Checks the position's commit number and log id. The hash does not cover these, and wrong ones would make the fold skip all
 * later commits.
 */
function checkCommit(commit: Commit | undefined, { log, seq }: FoldedPosition): void {
  if (commit?.log === log && commit.seq === seq) return;
  throw new WrongPosition(
    `the snapshot is at commit ${seq} of log ${log}, but the record at its position is commit ${commit?.seq} of log ${commit?.log}`,
  );
}

/** Checks that a trusted signer signed the log's first record, and throws `LogReplaced` otherwise. An empty log passes. */
export async function checkTrust(
  log: ControlLog,
  folded: FoldedPosition,
  trusted: TrustedSigners,
): Promise<void> {
  const genesis = await readGenesis(log);
  if (genesis) trusted.checkBeginning([genesis.record]);
  if (folded.seq > 0 && genesis?.log !== folded.log)
    throw new LogReplaced(`this log does not begin with the first record of log ${folded.log}`);
}
