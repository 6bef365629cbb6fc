/**
 * `headgate log archive`: writes the oldest commits into an archive, which is the folder of a backup, reads it back, makes the
 * state at the cut from it, and only then removes the commits from the log. Interrupted anywhere, nothing is lost, and the same
 * command finishes it.
 */
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Commit, parseCommit } from '../../schemas/commit.ts';
import { dayMs } from '../../schemas/durations.ts';
import { type EventData, readEvent } from '../../schemas/events.ts';
import { grouped } from '../../schemas/grouped.ts';
import { recordAt } from '../../shared/log/core/batches-to-end.ts';
import type { LogCutter } from '../../shared/log/core/beginning.ts';
import { emptyHead, type Head, judgeBatch } from '../../shared/log/core/chain.ts';
import {
  type ControlLog,
  type LogBeginning,
  type LogRecord,
  LogUnreadable,
} from '../../shared/log/core/control-log.ts';
import { openCutter } from '../../shared/log/open-log.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { DatabaseBusy, DatabaseCorrupt } from '../../shared/runtime/sqlite.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { BeginningUnusable, copyBeginning } from '../../shared/snapshot/log-beginning.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { CliError, interrupted } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { archiveTo } from './backup-create.ts';
import { readSegment } from './backup-files.ts';
import { damaged, requireManifest } from './backup-manifest.ts';
import { checkBackup } from './backup-verify.ts';
import { openRecordedLog, recordsOfLog, requireLogUrl } from './recorded-log.ts';

export interface ArchiveOptions {
  readonly before: number;
  readonly to: string;
}

/** A link of 30 days that was used is known from the log alone, and the log has its end. */
const keptMs = 31 * dayMs;

/** The first commit that the log keeps, and the state after it. */
interface Cut extends Head {
  readonly log: string;
  readonly offset: number;
  readonly trust: readonly LogRecord[];
}

export async function archiveLog(session: Session, { before, to: folder }: ArchiveOptions): Promise<void> {
  const log = await openRecordedLog(session, { mustExist: true, allowTrimmed: true });
  try {
    const beginning = await beginningIn(log);
    const begin = beginning?.seq ?? (await firstKept(log));
    const isFound = begin !== undefined && (beginning === undefined || before <= begin);
    const seq = isFound ? begin : await findCut(session, log, beginning, before);
    // What is not in the log any more was passed by all when it was removed.
    if (begin !== seq) await checkReaders(session, seq);
    const dryRun = session.globals.dryRun === true;
    if (!dryRun) {
      await confirmDestructive(
        session,
        String(seq),
        `remove the commits before position ${seq} from the log`,
      );
      await cutLog(session, { log, folder, seq });
    }
    await session.out.lines(
      [
        dryRun
          ? `the commits before position ${grouped(seq)} would be archived to ${folder}; nothing was written`
          : `archived the commits before position ${grouped(seq)} to ${folder}; the log begins there`,
        'keep the archive: proofs of the past, new backups, and a later version of Headgate may need it',
      ],
      { begin: seq, folder, ...(dryRun && { dryRun }) },
      folder,
    );
  } finally {
    await log.close();
  }
}

/** Undefined also where it cannot be used: it is made again. */
async function beginningIn(log: ControlLog): Promise<LogBeginning | undefined> {
  try {
    return await log.beginning?.();
  } catch (error) {
    if (error instanceof LogUnreadable) return undefined;
    throw error;
  }
}

/** The position of a checkpoint behind which the log was cut; undefined where it has its first record. */
async function firstKept(log: ControlLog): Promise<number | undefined> {
  const first = await recordAt(log, 0);
  if (first === undefined || first.offset === 0) return undefined;
  const commit = parseCommit(first.value);
  if (commit && checkpointIn(commit)) return commit.seq;
  throw new CliError('the first records of the log were removed, and not by headgate log archive', {
    type: 'DamagedLog',
    why: 'what is left does not begin with a checkpoint; nothing was changed',
    next: 'restore the log from its last backup, see docs/operate.md',
  });
}

function checkpointIn({ events }: Commit): EventData<'checkpoint'> | undefined {
  const read = events.length === 1 && events[0] ? readEvent(events[0]) : undefined;
  return read?.outcome === 'known' && read.event.type === 'checkpoint' ? read.event.data : undefined;
}

/**
 * The last checkpoint of this fold up to a position whose commits before are no longer needed in the log; or where the log
 * begins already, so that an interrupted run is finished.
 */
async function findCut(
  session: Session,
  log: ControlLog,
  beginning: LogBeginning | undefined,
  before: number,
): Promise<number> {
  const newest = await recordAt(log, (await log.end()) - 1);
  // Bounded by the log's time, because a fast clock of this machine must not make commits look old.
  const nowMs = wallClockMs();
  const checkpoints = new Checkpoints(Math.min(nowMs, newest?.atMs ?? nowMs));
  const report = session.progress();
  for await (const { commit } of accepted(session, log, beginning)) {
    if (commit.seq > before) break;
    checkpoints.look(commit);
    report(`read to position ${commit.seq}`);
  }
  const found = checkpoints.last ?? beginning?.seq;
  if (found === undefined) throw checkpoints.none(before);
  return found;
}

/** The checkpoints among commits, and why some are of no use. */
class Checkpoints {
  /** The last at which the log can be cut. */
  last: number | undefined;
  readonly #nowMs: number;
  #young = 0;
  #others = 0;

  constructor(nowMs: number) {
    this.#nowMs = nowMs;
  }

  look(commit: Commit): void {
    const checkpoint = checkpointIn(commit);
    if (checkpoint === undefined) return;
    const { seq, at } = commit;
    const isYoung = !(Date.parse(at) < this.#nowMs - keptMs);
    const isOther = checkpoint.foldVersion !== foldVersion;
    if (isYoung) this.#young++;
    else if (isOther) this.#others++;
    else this.last = seq;
  }

  none(before: number): CliError {
    const young = `${this.#young} of the last 31 days: which sessions and links ended is read from these commits`;
    const others = `${this.#others} of builds with another fold, by which this build cannot prove a state`;
    const why = [...(this.#young > 0 ? [young] : []), ...(this.#others > 0 ? [others] : [])];
    return new CliError(`there is no checkpoint up to position ${before} at which the log can be cut`, {
      type: 'Conflict',
      why: [
        ...(why.length > 0 ? why : ['a control plane writes one every 1000 commits']),
        'nothing was changed',
      ],
      next: 'headgate events list --type checkpoint',
    });
  }
}

/** Throws a CliError that names who has not folded so far. */
async function checkReaders(session: Session, seq: number): Promise<void> {
  const api = await session.presentApi();
  const { controlPlanes = [] } = await api.run('status.get');
  const { items: gateways } = await api.run('gateway.list');
  const behind = [
    ...controlPlanes.map((each) => ({ what: 'control plane', ...each })),
    ...gateways.map((each) => ({ what: 'gateway', ...each })),
  ].filter(({ applied }) => applied < seq);
  if (behind.length === 0) return;
  throw new CliError(`${behind.length} of those that read the log have not reached position ${seq}`, {
    type: 'Conflict',
    why: [
      ...behind.map(({ what, name, applied }) => `${what} ${name} is at position ${applied}`),
      'nothing was changed',
    ],
    next: 'start them, or headgate gateway forget NAME for a gateway that no longer exists; then run this again',
  });
}

interface Work {
  readonly log: ControlLog;
  readonly folder: string;
  readonly seq: number;
}

async function cutLog(session: Session, { log, folder, seq }: Work): Promise<void> {
  const url = requireLogUrl(session);
  const dir = resolve(session.io.cwd, folder);
  const cutter = await onlyCutter(url, dir);
  try {
    session.note(`writing the commits up to position ${seq} to ${folder}`);
    await archiveTo(session, { url, folder, to: seq });
    session.note('reading them back');
    await checkBackup(session, dir);
    const beginning = await beginningIn(log);
    if (beginning?.seq !== seq || !(await isUsable(beginning, log, cutter)))
      await makeBeginning(session, { dir, log, seq, cutter });
    const report = session.progress();
    for await (const removed of cutter.removeArchived()) {
      report(`${removed} records removed`);
      if (session.signal.aborted) throw interrupted();
    }
    if (!(await cutter.compact()))
      session.note('the file stays as large as it is, and later commits use its free pages');
  } finally {
    await cutter.close();
  }
}

async function onlyCutter(url: string, near: string): Promise<LogCutter> {
  try {
    return await openCutter(url, near);
  } catch (error) {
    if (!(error instanceof DatabaseBusy)) throw error;
    throw new CliError('another headgate log archive is at work on this log', {
      type: 'Conflict',
      cause: error,
    });
  }
}

async function isUsable(beginning: LogBeginning, log: ControlLog, cutter: LogCutter): Promise<boolean> {
  const copy = `${cutter.partPath(beginning)}-check`;
  try {
    await copyBeginning(copy, log, beginning);
    return true;
  } catch (error) {
    if (
      error instanceof BeginningUnusable ||
      error instanceof LogUnreadable ||
      error instanceof DatabaseCorrupt
    )
      return false;
    throw error;
  } finally {
    rmSync(copy, { force: true });
  }
}

interface Making {
  readonly dir: string;
  readonly log: ControlLog;
  readonly seq: number;
  readonly cutter: LogCutter;
}

/** The state at the cut, folded from the archive as it was read back, and proven by the checkpoint there. */
async function makeBeginning(session: Session, { dir, log, seq, cutter }: Making): Promise<void> {
  const part = cutter.partPath({ seq, foldVersion });
  for (const suffix of ['', '-wal', '-shm']) rmSync(part + suffix, { force: true });
  const { snapshot } = openOrRebuild(part);
  let cut: Cut | undefined;
  try {
    const last = await recordInLog(session, log, seq);
    const trust: LogRecord[] = [];
    const report = session.progress();
    for await (const records of archivedTo(dir, seq, last)) {
      if (session.signal.aborted) throw interrupted();
      trust.push(...thatNameSigners(snapshot.head, records));
      snapshot.apply(records);
      report(`folded to position ${snapshot.seq}`);
    }
    const { log: id, ...head } = snapshot.head;
    if (snapshot.divergedAt !== null)
      throw damaged(
        'the archive',
        `its state differs from the checkpoint at position ${snapshot.divergedAt}`,
      );
    if (id === null || snapshot.seq !== seq || snapshot.headOffset !== last.offset)
      throw damaged('the archive', `it is not continued by the log at position ${seq}`);
    cut = { log: id, ...head, offset: last.offset, trust };
  } finally {
    snapshot.close();
  }
  const { trust, ...head } = cut;
  await cutter.setBeginning({
    ...{ log: head.log, seq, hash: head.hash, signers: [...head.signers], offset: head.offset, foldVersion },
    trust: trust.map(({ value, signature }) => ({
      value: value.toString('base64'),
      signature: signature?.toString('base64') ?? null,
    })),
  });
}

/** The commits before the cut from the archive, and the one at the cut from the log, where later readers find it. */
async function* archivedTo(dir: string, seq: number, last: LogRecord): AsyncIterable<readonly LogRecord[]> {
  for (const segment of requireManifest(dir).segments) {
    if (segment.from >= seq) break;
    for await (const records of readSegment(dir, segment)) {
      // Their places in the archive are their positions, and a record of the log is never before that.
      const wanted = records.filter(({ offset }) => offset < seq);
      if (wanted.length > 0) yield wanted.map((record) => ({ ...record, offset: record.offset - 1 }));
    }
  }
  yield [last];
}

/** The accepted record of a commit. */
async function recordInLog(session: Session, log: ControlLog, seq: number): Promise<LogRecord> {
  const beginning = await beginningIn(log);
  const first = await recordAt(log, beginning?.offset ?? 0);
  if (first !== undefined && parseCommit(first.value)?.seq === seq) return first;
  for await (const { commit, record } of accepted(session, log, beginning))
    if (commit.seq === seq) return record;
  throw new CliError(`the log has no position ${seq}`, {
    type: 'NotFound',
    next: 'headgate status',
  });
}

/** The commits that the log has behind its beginning. */
async function* accepted(
  session: Session,
  log: ControlLog,
  beginning: LogBeginning | undefined,
): AsyncIterable<{ readonly commit: Commit; readonly record: LogRecord }> {
  let head: Head = beginning ?? emptyHead();
  for await (const records of recordsOfLog(log, beginning?.offset ?? 0)) {
    if (session.signal.aborted) throw interrupted();
    for (const [index, judgement] of judgeBatch(head, records).entries()) {
      const record = records[index];
      if (!('accepted' in judgement) || record === undefined) continue;
      head = judgement.head;
      yield { commit: judgement.accepted, record };
    }
  }
}

/** The first record of the log, and each that changes who signs. */
function thatNameSigners(before: Head, records: readonly LogRecord[]): LogRecord[] {
  let { seq, signers } = before;
  return judgeBatch(before, records).flatMap((judgement, index) => {
    const record = records[index];
    if (!('accepted' in judgement) || record === undefined) return [];
    const isNaming = seq === 0 || judgement.head.signers !== signers;
    ({ seq, signers } = judgement.head);
    return isNaming ? [record] : [];
  });
}
