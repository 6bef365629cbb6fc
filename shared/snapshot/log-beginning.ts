/**
 * Opens a snapshot to be folded further, whose log may begin behind commits that were archived: what is behind that place
 * begins with the state that the log keeps there. What comes is untrusted until it was checked: its position, its rows against
 * their digests, these against the checkpoint of the log, and who signs there.
 */
import { renameSync, rmSync } from 'node:fs';
import { parseCommit } from '../../schemas/commit.ts';
import { readEvent } from '../../schemas/events.ts';
import { recordAt } from '../log/core/batches-to-end.ts';
import { followSigners, recordHash } from '../log/core/chain.ts';
import type { ControlLog, LogBeginning } from '../log/core/control-log.ts';
import { verify } from '../log/core/signing.ts';
import { foldVersion } from './fold.ts';
import { type OpenedSnapshot, openExisting, openOrRebuild, quarantineFile } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { tableNames } from './tables.ts';
import { verifyInTurns } from './verify.ts';

export interface OpenedAtBeginning extends OpenedSnapshot {
  /** It is the state with which the log begins, and nothing was folded from the commits before. */
  readonly isFromBeginning: boolean;
}

/** The state that the log keeps cannot be used here. The message has the next step. */
export class BeginningUnusable extends Error {
  override readonly name = 'BeginningUnusable';
}

/** What cannot be continued, because the log has no longer what follows it. */
export function isBehind(
  { log, seq }: Pick<Snapshot, 'log' | 'seq'>,
  beginning: LogBeginning | undefined,
): boolean {
  return beginning !== undefined && seq < beginning.seq && (seq === 0 || log === beginning.log);
}

/** As `openOrRebuild`. Rejects with BeginningUnusable and the errors of the log, too. */
export async function openAtBeginning(
  path: string,
  log: ControlLog,
  beginning: LogBeginning | undefined,
  logId?: string,
): Promise<OpenedAtBeginning> {
  const opened = openOrRebuild(path, logId);
  if (beginning === undefined || !isBehind(opened.snapshot, beginning))
    return { ...opened, isFromBeginning: false };
  const { rebuiltBecause = behindText(opened.snapshot, beginning) } = opened;
  opened.snapshot.close();
  const part = `${path}.beginning`;
  await copyBeginning(part, log, beginning);
  quarantineFile(path);
  renameSync(part, path);
  const { snapshot } = openOrRebuild(path, beginning.log);
  return { snapshot, isFromBeginning: true, ...(rebuiltBecause !== undefined && { rebuiltBecause }) };
}

function behindText({ seq }: Snapshot, beginning: LogBeginning): string | undefined {
  if (seq === 0) return undefined;
  return `it ends at position ${seq}, and the log begins at position ${beginning.seq}: earlier commits are in the archive`;
}

/** Copies the state with which the log begins to a file that is not open, and checks it. Rejects with BeginningUnusable and the errors of the log. */
export async function copyBeginning(path: string, log: ControlLog, beginning: LogBeginning): Promise<void> {
  if (beginning.foldVersion !== foldVersion) throw otherFold(beginning);
  removeFile(path);
  try {
    await beginning.copyTo(path);
    await check(path, log, beginning);
  } catch (error) {
    removeFile(path);
    throw error;
  }
}

function removeFile(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
}

function otherFold({ seq, foldVersion: version }: LogBeginning): BeginningUnusable {
  return new BeginningUnusable(
    `the log begins at position ${seq} with a state of version ${version} of the fold, and this build has version ${foldVersion}: ` +
      `run headgate log archive --before ${seq} --to ARCHIVE of this build, which makes that state again, see docs/log-archive.md`,
  );
}

async function check(path: string, log: ControlLog, beginning: LogBeginning): Promise<void> {
  const snapshot = openExisting(path, { readOnly: false });
  try {
    const fault = faultOfPosition(snapshot, beginning) ?? (await faultOfRows(snapshot, log, beginning));
    if (fault !== undefined)
      throw new BeginningUnusable(
        `the state with which the log begins cannot be used: ${fault}; ` +
          `run headgate log archive --before ${beginning.seq} --to ARCHIVE again, which makes it again, see docs/log-archive.md`,
      );
  } finally {
    snapshot.close();
  }
}

function faultOfPosition(snapshot: Snapshot, beginning: LogBeginning): string | undefined {
  const { log, seq, hash, signers } = snapshot.head;
  if (log !== beginning.log) return `it is of log ${log}, not ${beginning.log}`;
  if (seq !== beginning.seq || hash !== beginning.hash || snapshot.headOffset !== beginning.offset)
    return `it is at another commit than position ${beginning.seq}`;
  const trusted = followSigners(beginning.trust);
  const isTrusted = (names: readonly string[]): boolean =>
    JSON.stringify(names) === JSON.stringify(trusted?.signers);
  if (
    trusted?.log === beginning.log &&
    trusted.seq <= seq &&
    isTrusted(signers) &&
    isTrusted(beginning.signers)
  )
    return undefined;
  return 'its signers do not follow from the first record of the log';
}

async function faultOfRows(
  snapshot: Snapshot,
  log: ControlLog,
  beginning: LogBeginning,
): Promise<string | undefined> {
  const differing = await verifyInTurns(snapshot.db);
  if (differing.length > 0) return `rows of ${differing.join(', ')} do not add up to their digest`;
  const record = await recordAt(log, beginning.offset);
  const commit = record && parseCommit(record.value);
  if (record === undefined || recordHash(record.value) !== beginning.hash || commit?.seq !== beginning.seq)
    return `the log does not have its commit ${beginning.seq}`;
  // A checkpoint changes no signers: those behind it have signed it, too.
  if (beginning.signers.length > 0 && !verify(beginning.signers, record.value, record.signature))
    return `commit ${beginning.seq} is not signed by a signer of the log`;
  const read = commit.events[0] && readEvent(commit.events[0]);
  if (read?.outcome !== 'known' || read.event.type !== 'checkpoint') return 'its commit is no checkpoint';
  // That of a build with another fold says nothing of these rows: the state was made again from the archive since.
  if (read.event.data.foldVersion !== foldVersion) return undefined;
  const stated: Readonly<Record<string, string>> = read.event.data.digests;
  const ours = snapshot.digests();
  const other = tableNames.filter((name) => stated[name] !== ours[name]);
  return other.length > 0 ? `rows of ${other.join(', ')} differ from the checkpoint of the log` : undefined;
}
