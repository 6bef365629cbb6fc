/**
 * `headgate backup DIR` copies the log's new commits and a control plane's databases, even while the control plane is
 * running. If the backup is interrupted, the previous one remains intact.
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { dayNamesIn } from '../../control-plane/usage/day-files.ts';
import { controlTopic } from '../../schemas/events/commit.ts';
import { emptyHead, type Head, judgeBatch, recordHash } from '../../shared/log/core/chain.ts';
import { type ControlLog, type LogRecord, LogTruncated } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { DatabaseBusy, lockFile } from '../../shared/runtime/sqlite.ts';
import { version } from '../../shared/runtime/version.ts';
import { CliError, interrupted, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { checkFile, completedRequests, copyDatabase, writeSegment } from './backup-files.ts';
import { type Manifest, readManifest, writeManifest } from './backup-manifest.ts';
import { requireLogUrl } from './recorded-log.ts';

export interface BackupOptions {
  readonly log?: string;
  /** Data folder of a control plane. */
  readonly data?: string;
  /** Set to false by --no-usage. */
  readonly usage?: boolean;
}

const dataNames = ['usage.db', 'gateways.db'] as const;
const lockName = 'lock.db';
type DataName = Manifest['data'][number]['name'];
/** Safety margin in ms. A daily file counts as unchanged if it was modified at least this long before the previous backup. */
const settledMs = 60_000;

export async function createBackup(session: Session, options: BackupOptions, folder: string): Promise<void> {
  if (session.globals.dryRun)
    throw usageError('a backup has no dry run: leave out --dry-run', `headgate backup verify ${folder}`);
  const dir = resolve(session.io.cwd, folder);
  const dataDir = requireDataFolder(session, options);
  const url = requireLogUrl(session, options.log);
  const lock = lockBackup(dir, folder);
  try {
    const former = readManifest(dir);
    for (const segment of former?.segments ?? []) await checkFile(dir, segment);
    const number = (former?.number ?? 0) + 1;
    // Copy the usage totals before the log, so that the copied log contains everything that the totals refer to.
    const data = dataDir === undefined ? (former?.data ?? []) : await copyData(dataDir, dir, number, former);
    checkUsage(dir, former?.data ?? [], data);
    const { log, segment } = await copyLog(session, url, dir, number, former);
    const segments = [...(former?.segments ?? []), ...(segment ? [segment] : [])];
    if (session.signal.aborted) throw interrupted();
    const manifest = writeNext(dir, { number, log, segments, data });
    await show(session, folder, manifest, former);
  } finally {
    lock.release();
  }
}

function writeNext(dir: string, rest: Pick<Manifest, 'number' | 'log' | 'segments' | 'data'>): Manifest {
  const createdAt = new Date(wallClockMs()).toISOString();
  const manifest: Manifest = { format: 1, headgate: version(), createdAt, ...rest };
  writeManifest(dir, manifest);
  removeOthers(dir, manifest);
  return manifest;
}

function requireDataFolder(session: Session, { data, usage }: BackupOptions): string | undefined {
  if (data === undefined) {
    if (usage === false) return undefined;
    throw usageError(
      'the data folder of a control plane is missing: usage.db has every completed request',
      'add --data FOLDER, or --no-usage for the log alone',
    );
  }
  const dataDir = resolve(session.io.cwd, data);
  if (existsSync(join(dataDir, 'usage.db'))) return dataDir;
  throw usageError(`${data} is not a control plane's data folder: it has no usage.db`, 'check --data');
}

/** Locks the folder, and creates it if it is missing. Throws a `CliError` if it contains other files or is already locked. */
function lockBackup(dir: string, folder: string): { release(): void } {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const names = readdirSync(dir);
  if (names.length === 0) chmodSync(dir, 0o700);
  else if (!names.includes(lockName) && !names.includes('manifest.json'))
    throw new CliError(`${folder} is not empty, and does not contain a backup`, {
      type: 'Conflict',
      next: 'choose an empty folder, or that of an earlier backup',
    });
  try {
    // Create the file here with restricted permissions, because SQLite would use the default ones.
    closeSync(openSync(join(dir, lockName), 'a', 0o600));
    return lockFile(join(dir, lockName));
  } catch (error) {
    if (!(error instanceof DatabaseBusy)) throw error;
    throw new CliError(`another backup into ${folder} is running`, {
      type: 'Conflict',
      cause: error,
    });
  }
}

/** Copies the databases, starting with `usage.db`, so that rows that move to a daily file meanwhile are not missed. */
async function copyData(
  dataDir: string,
  dir: string,
  number: number,
  former: Manifest | undefined,
): Promise<Manifest['data']> {
  const copies: Manifest['data'] = [];
  for (const name of [...dataNames, ...dayNamesIn(dataDir)]) {
    const found = statSync(join(dataDir, name), { throwIfNoEntry: false });
    if (found === undefined) continue;
    const file = name.replace('/', '-').replace('.', `-${padNumber(number)}.`);
    const isDay = name.includes('/');
    const same = isDay ? former?.data.find((copy) => copy.name === name) : undefined;
    const isSame = found.mtimeMs + settledMs < Date.parse(former?.createdAt ?? '');
    if (same !== undefined && isSame) {
      await checkFile(dir, same);
      copies.push(same);
    } else copies.push({ ...(await copyDatabase(join(dataDir, name), dir, file)), name: name as DataName });
  }
  return copies;
}

/** Refuses to replace the only copy of billed usage with a smaller one, for example after a volume was lost. */
function checkUsage(dir: string, former: Manifest['data'], data: Manifest['data']): void {
  const [had, has] = [former, data].map((files) => {
    const usage = files.find(({ name }) => name === 'usage.db');
    return usage === undefined ? 0 : completedRequests(join(dir, usage.file));
  });
  if (had === undefined || has === undefined || has >= had) return;
  throw new CliError(`usage.db has ${has} completed requests, but its copy in this backup has ${had}`, {
    type: 'Conflict',
    why: 'the backup was not changed',
    next: 'check --data; if the data folder is the right one, keep this backup, and back up into a new folder',
  });
}

interface CopiedLog {
  readonly log: Manifest['log'];
  readonly segment?: Manifest['segments'][number];
}

async function copyLog(
  session: Session,
  url: string,
  dir: string,
  number: number,
  former: Manifest | undefined,
): Promise<CopiedLog> {
  const log = await openLog(url, { topic: controlTopic }, { mustExist: true });
  try {
    const commits = new NewCommits(session, log, former);
    const file = `log-${padNumber(number)}.jsonl.gz`;
    const written = await writeSegment(dir, file, commits.read());
    const { head, offset } = commits;
    if (head.log === null)
      throw new CliError('the log contains no commit', { type: 'NotFound', next: 'check HEADGATE_LOG' });
    const facts = {
      log: { id: head.log, position: head.seq, hash: head.hash, signers: [...head.signers], offset },
    };
    if (head.seq === (former?.log.position ?? 0)) {
      rmSync(join(dir, file), { force: true });
      return facts;
    }
    return { ...facts, segment: { ...written, from: (former?.log.position ?? 0) + 1, to: head.seq } };
  } finally {
    await log.close();
  }
}

/** Reads the commits made since the previous backup. Leaves out records that every reader of the log ignores. */
class NewCommits {
  head: Head = emptyHead();
  offset = 0;
  readonly #session: Session;
  readonly #log: ControlLog;
  readonly #former: Manifest['log'] | undefined;

  constructor(session: Session, log: ControlLog, former: Manifest | undefined) {
    this.#session = session;
    this.#log = log;
    this.#former = former?.log;
    if (this.#former === undefined) return;
    const { id, position, hash, signers, offset } = this.#former;
    this.head = { log: id, seq: position, hash, signers };
    this.offset = offset;
  }

  async *read(): AsyncIterable<LogRecord> {
    const end = await this.#log.end();
    let isJoined = this.#former === undefined;
    if (isJoined && end === 0) return;
    if (end <= this.offset) throw this.#otherLog();
    for await (const { records, nextOffset } of this.#tail(this.offset)) {
      if (this.#session.signal.aborted) throw interrupted();
      yield* this.#accepted(isJoined ? records : this.#afterLast(records));
      isJoined ||= records.length > 0;
      if (nextOffset >= end) break;
    }
    if (!isJoined) throw this.#otherLog();
  }

  *#accepted(records: readonly LogRecord[]): Iterable<LogRecord> {
    for (const [index, judgement] of judgeBatch(this.head, records).entries()) {
      const record = records[index];
      if (!record || !('accepted' in judgement)) continue;
      this.head = judgement.head;
      this.offset = record.offset;
      yield record;
    }
  }

  async *#tail(from: number): AsyncIterable<{ records: readonly LogRecord[]; nextOffset: number }> {
    try {
      yield* this.#log.tail({ from, recordsMax: 500 });
    } catch (error) {
      if (!(error instanceof LogTruncated)) throw error;
      throw this.#former ? this.#otherLog() : lostBeginningError(error);
    }
  }

  /** Checks that the first record is the last commit of the previous backup, and returns the records after it. */
  #afterLast([last, ...rest]: readonly LogRecord[]): readonly LogRecord[] {
    if (last && (last.offset !== this.offset || recordHash(last.value) !== this.head.hash))
      throw this.#otherLog();
    return rest;
  }

  #otherLog(): CliError {
    return new CliError('the log is not that of this backup, or has lost commits that the backup has', {
      type: 'Conflict',
      why: `position ${this.head.seq} of log ${this.head.log} is not at offset ${this.offset}; the backup was not changed`,
      next: 'keep this backup, and back up into a new folder',
    });
  }
}

/** Error if the log has lost its first commits, so that no new backup can be started from it. */
function lostBeginningError(error: LogTruncated): CliError {
  return new CliError('the log has lost its first commits, so no new backup can be made of it', {
    type: 'Conflict',
    why: error.message,
    next: 'name the folder of its last backup, or the archive that headgate log archive of an earlier version wrote',
    cause: error,
  });
}

/** Matches the names of all files that backups write, including incomplete ones. */
const ownName = /^(?:(?:log|usage|usage-rows-[\d-]{10}|gateways)-\d{6}\.|manifest\.json\..+\.part$)/;

function removeOthers(dir: string, { segments, data }: Manifest): void {
  const kept = new Set([lockName, 'manifest.json', ...[...segments, ...data].map(({ file }) => file)]);
  for (const name of readdirSync(dir))
    if (!kept.has(name) && ownName.test(name)) rmSync(join(dir, name), { force: true });
}

function padNumber(number: number): string {
  return String(number).padStart(6, '0');
}

function dataText(data: Manifest['data']): string {
  const names = data.map(({ name }) => name);
  const days = names.filter((name) => name.includes('/')).length;
  const all = [...names.filter((name) => !name.includes('/')), ...(days > 0 ? [`rows of ${days} days`] : [])];
  return all.length > 0 ? ` and ${all.join(', ')}` : '';
}

async function show(
  session: Session,
  folder: string,
  { log, number, segments, data }: Manifest,
  former: Manifest | undefined,
): Promise<void> {
  const commits = log.position - (former?.log.position ?? 0);
  const bytes = [...segments, ...data].reduce((sum, file) => sum + file.bytes, 0);
  await session.out.lines(
    [
      `backed up log ${log.id} to position ${log.position} (${commits} new commits)${dataText(data)}`,
      'a backup contains no signing keys and no tokens: keep them elsewhere',
    ],
    {
      folder,
      number,
      log: log.id,
      position: log.position,
      commits,
      bytes,
      data: data.map(({ name }) => name),
    },
    folder,
  );
}
