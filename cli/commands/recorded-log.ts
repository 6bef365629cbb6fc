/** Reads the control log itself, from its beginning to the end that it has now, and the archive of what is no longer in it. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { controlTopic, parseCommit } from '../../schemas/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { recordHash } from '../../shared/log/core/chain.ts';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import type { OpenLogOptions } from '../../shared/log/open-log.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';
import { checkFile, readSegment } from './backup-files.ts';
import { requireManifest } from './backup-manifest.ts';

const batchRecords = 500;

/** HEADGATE_LOG, or the log of the context file. */
export function logUrlOf(session: Session): string | undefined {
  return session.io.env['HEADGATE_LOG'] || readContext(session.io).log;
}

/** `given` or else that. Throws a CliError where there is none. */
export function requireLogUrl(session: Session, given?: string): string {
  const url = given ?? logUrlOf(session);
  if (url) return url;
  throw usageError('no log address is configured', 'set HEADGATE_LOG, for example sqlite:./data/log');
}

/** For its caller to close. */
export async function openRecordedLog(session: Session, options?: OpenLogOptions): Promise<ControlLog> {
  const url = requireLogUrl(session);
  const { openLog, parseLogUrl } = await import('../../shared/log/open-log.ts');
  const { embeddedLogPath } = await import('../../shared/log/embedded/embedded-log.ts');
  const parsed = parseLogUrl(url);
  // Opening would create a missing log; a replay must not write.
  if (parsed.kind === 'sqlite' && !existsSync(embeddedLogPath(parsed.folder, { topic: controlTopic })))
    throw new CliError('no control log exists at this address', {
      type: 'Unreachable',
      next: 'check HEADGATE_LOG',
    });
  return openLog(url, { topic: controlTopic }, options);
}

/** From where the log begins, unless `from` says otherwise. */
export function recordsOfLog(log: ControlLog, from?: number): AsyncIterable<readonly LogRecord[]> {
  return batchesToEnd(log, { recordsMax: batchRecords, ...(from !== undefined && { from }) });
}

/** A state to fold the records of a log into. */
export interface StartingState {
  readonly snapshot: Snapshot;
  /** The position of the state, where the log begins there because earlier commits were archived; else 0. */
  readonly begin: number;
  release(): void;
}

/** Empty, or the state with which the log begins. Throws a CliError where that cannot be used. */
export async function startingState(log?: ControlLog): Promise<StartingState> {
  const { memorySnapshot, openOrRebuild } = await import('../../shared/snapshot/open-snapshot.ts');
  const beginning = await log?.beginning?.();
  if (log === undefined || beginning === undefined) {
    const snapshot = memorySnapshot();
    return { snapshot, begin: 0, release: () => snapshot.close() };
  }
  const { BeginningUnusable, copyBeginning } = await import('../../shared/snapshot/log-beginning.ts');
  const dir = mkdtempSync(join(tmpdir(), 'headgate-beginning-'));
  const remove = (): void => rmSync(dir, { recursive: true, force: true });
  try {
    const path = join(dir, 'state.db');
    await copyBeginning(path, log, beginning);
    const { snapshot } = openOrRebuild(path, beginning.log);
    const release = (): void => {
      snapshot.close();
      remove();
    };
    return { snapshot, begin: beginning.seq, release };
  } catch (error) {
    remove();
    if (!(error instanceof BeginningUnusable)) throw error;
    throw new CliError(error.message, { type: 'DamagedLog', cause: error });
  }
}

/** The commits of the archive, and behind them those of the log that it does not have; with offsets of their own. */
export async function* recordsBehind(
  dir: string,
  log: AsyncIterable<readonly LogRecord[]> | undefined,
): AsyncIterable<readonly LogRecord[]> {
  const { log: last, segments } = requireManifest(dir);
  let offset = 0;
  const placed = (records: readonly LogRecord[]): LogRecord[] =>
    records.map((record) => ({ ...record, offset: offset++ }));
  for (const segment of segments) {
    await checkFile(dir, segment);
    for await (const records of readSegment(dir, segment)) yield placed(records);
  }
  const rest = new BehindArchive(dir, last);
  for await (const records of log ?? []) yield placed(rest.of(records));
}

/** Those of a log that an archive does not have. */
class BehindArchive {
  readonly #dir: string;
  readonly #last: { readonly position: number; readonly hash: string };
  #isJoined = false;

  constructor(dir: string, last: { readonly position: number; readonly hash: string }) {
    this.#dir = dir;
    this.#last = last;
  }

  /** Throws a CliError where the last commit of the archive is not among those before. */
  of(records: readonly LogRecord[]): LogRecord[] {
    const { position, hash } = this.#last;
    const rest = records.filter(({ value }) => {
      const seq = parseCommit(value)?.seq ?? Number.POSITIVE_INFINITY;
      if (seq === position && recordHash(value) === hash) this.#isJoined = true;
      return seq > position;
    });
    if (!this.#isJoined && rest.length > 0) throw notJoined(this.#dir, position);
    return rest;
  }
}

function notJoined(dir: string, position: number): CliError {
  return new CliError(`the log does not continue the archive ${dir}, which ends at position ${position}`, {
    type: 'Conflict',
    why: 'the archive is of another log, or lacks commits that were archived later',
    next: 'headgate backup verify FOLDER shows what an archive has',
  });
}

/** Of records that begin behind others: those are in the archive. */
export function archivedBefore(position: number): CliError {
  return new CliError(`archived: positions before ${position} are in the archive`, {
    type: 'NotFound',
    next: 'add --archive FOLDER',
  });
}
