/** `headgate backup restore` recreates a lost fleet's log and databases. An interrupted restore can be repeated. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { dayNamesIn } from '../../control-plane/usage/day-files.ts';
import { openUsageStore } from '../../control-plane/usage/usage-store.ts';
import type { PoolTotal } from '../../control-plane/usage/usage-tables.ts';
import { controlTopic } from '../../schemas/events/commit.ts';
import { type CounterEntry, rowsReplica } from '../../schemas/records/limits.ts';
import { usagePartitions } from '../../schemas/records/usage.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterState } from '../../shared/limits/counters.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { emptyHead, type Head, judge, judgeBatch, recordHash } from '../../shared/log/core/chain.ts';
import {
  type ControlLog,
  type LogRecord,
  LogReplaced,
  LogTruncated,
} from '../../shared/log/core/control-log.ts';
import { computeFingerprint, SigningKeyUnusable } from '../../shared/log/core/signing.ts';
import { TrustedSigners } from '../../shared/log/core/trust.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { lockDataFolder } from '../../shared/runtime/data-folder.ts';
import { Backoff } from '../../shared/runtime/retry.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { CliError, interrupted, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import type { BackupOptions } from './backup-create.ts';
import { copyToNew, partSuffix, publishFile, readSegment, syncFolder } from './backup-files.ts';
import type { Manifest } from './backup-manifest.ts';
import { checkBackup } from './backup-verify.ts';
import { type PeriodUse, readCounted } from './restore-counters.ts';

const appendsAtOnce = 100;
/** Time in ms for which appends to an unreachable log are retried. */
const retryForMs = 60_000;

export interface BackupRestoreOptions extends BackupOptions {
  readonly trustSigner?: readonly string[];
  readonly allowUnsigned?: boolean;
}

export async function restoreBackup(
  session: Session,
  { log: url, data, trustSigner = [], allowUnsigned = false }: BackupRestoreOptions,
  folder: string,
): Promise<void> {
  if (url === undefined || data === undefined)
    throw usageError(
      'give the address of the new log and the data folder of the new control plane',
      `headgate backup restore ${folder} --log sqlite:./data/log --data ./data/cp --yes`,
    );
  const dir = resolve(session.io.cwd, folder);
  const { manifest, digest } = await checkBackup(session, dir);
  const { log } = manifest;
  const dataDir = resolve(session.io.cwd, data);
  checkEmpty(dataDir, data);
  session.note(`${folder} is whole: log ${log.id} to position ${log.position}, of ${manifest.createdAt}`);
  session.note(
    `commands after position ${log.position} are lost: a key that was revoked after it is valid again`,
  );
  await checkSigners(session, dir, manifest, { pins: trustSigner, allowUnsigned });
  await confirmDestructive(session, log.id, `write log ${log.id} again`);
  const { dryRun = false } = session.globals;
  if (!dryRun) {
    const lock = lockDataFolder(dataDir);
    try {
      checkEmpty(dataDir, data);
      // Run every check that may refuse the restore before anything is written.
      const counted = await readCounted(session, url);
      await writeLog(session, url, dir, manifest);
      await writeData(dir, dataDir, manifest.data, counted);
    } finally {
      lock.release();
    }
  }
  await session.out.lines(
    [
      dryRun
        ? 'nothing was written, and the log was not opened'
        : `restored log ${log.id} to position ${log.position}; start a control plane with --data ${data}, then gateways with --control-plane`,
    ],
    {
      log: log.id,
      position: log.position,
      digest,
      data: manifest.data.map(({ name }) => name),
      ...(dryRun && { dryRun }),
    },
    log.id,
  );
}

/**
 * Throws if the data folder contains anything but leftovers of an interrupted restore, because old usage would count twice.
 */
function checkEmpty(dataDir: string, shown: string): void {
  const names = existsSync(dataDir) ? [...readdirSync(dataDir), ...dayNamesIn(dataDir)] : [];
  const own = names.includes(`usage.db${partSuffix}`)
    ? /^(?:lock|gateways|counters|usage-rows\/[\d-]{10})\.db(?:-wal|-shm)?$|\.db\.part/
    : /^lock\.db(?:-wal|-shm)?$|\.db\.part/;
  const found = names.find((name) => name.includes('.db') && !own.test(name));
  if (found === undefined) return;
  throw new CliError(`${shown} is not empty: it has ${found}`, {
    type: 'Conflict',
    next: 'choose an empty folder with --data',
  });
}

interface Trust {
  readonly pins: readonly string[];
  readonly allowUnsigned: boolean;
}

/**
 * Checks who signed the log, because checksums detect damage but do not show who wrote the backup. Throws a `CliError` unless
 * one of `pins` signed the first commit. Without pins, the user must compare the signers, so --yes alone is not enough.
 */
async function checkSigners(
  session: Session,
  dir: string,
  manifest: Manifest,
  { pins, allowUnsigned }: Trust,
): Promise<void> {
  const signers = manifest.log.signers.map(computeFingerprint);
  if (pins.length > 0) await checkBeginning(dir, manifest, pins);
  const isUnsigned = await isBegunUnsigned(dir, manifest);
  session.note(
    isUnsigned
      ? `its log ${signers.length === 0 ? 'is not signed' : `was begun unsigned, and is signed by ${signers.join(', ')} now`}: nothing proves that the backup was not changed`
      : `signed by ${signers.join(', ')}${pins.length > 0 ? '' : '; compare them with those that you keep elsewhere, or name them with --trust-signer'}`,
  );
  if (session.globals.yes !== true || pins.length > 0 || (isUnsigned && allowUnsigned)) return;
  throw new CliError('--yes skips the comparison of the signers of the backup', {
    type: 'Untrusted',
    why: 'anyone who can write to the backup can put another log there, signed by another key or by none',
    next: isUnsigned
      ? 'if your log was begun unsigned, add --allow-unsigned'
      : 'add --trust-signer with the key that you know to have signed the first commit',
  });
}

async function checkBeginning(dir: string, { segments }: Manifest, pins: readonly string[]): Promise<void> {
  try {
    const trusted = new TrustedSigners(pins);
    // Search all segments, because any number of records that readers ignore may precede the first commit.
    for (const segment of segments)
      for await (const records of readSegment(dir, segment)) if (trusted.checkBeginning(records)) return;
  } catch (error) {
    if (error instanceof SigningKeyUnusable) throw usageError(error.message);
    if (!(error instanceof LogReplaced)) throw error;
    throw new CliError(error.message, { type: 'Untrusted', cause: error });
  }
}

/**
 * Whether the first commit is unsigned. Later signatures do not help, because anyone who can write to the backup could start
 * another log and sign it.
 */
async function isBegunUnsigned(dir: string, manifest: Manifest): Promise<boolean> {
  for await (const record of readRecords(dir, manifest)) {
    const judgement = judge(emptyHead(), record);
    if ('accepted' in judgement) return judgement.head.signers.length === 0;
  }
  return true;
}

async function writeLog(session: Session, url: string, dir: string, manifest: Manifest): Promise<void> {
  const log = await openLog(url, { topic: controlTopic });
  try {
    const head = await readHead(log).catch((error: unknown) => {
      throw error instanceof LogTruncated ? notEmptyError(error.message, error) : error;
    });
    checkMayContinue(head, manifest);
    await appendAll(session, log, head, { dir, manifest });
    const { seq: position, hash } = await readHead(log);
    if (position === manifest.log.position && hash === manifest.log.hash) return;
    throw new CliError('the log read back differs from what was written', {
      type: 'DamagedLog',
      why: `the log has ${position} of ${manifest.log.position} commits of the backup`,
      next: 'stop all control planes, delete the log and retry',
    });
  } finally {
    await log.close();
  }
}

interface Source {
  readonly dir: string;
  readonly manifest: Manifest;
}

async function appendAll(session: Session, log: ControlLog, head: Head, source: Source): Promise<void> {
  let { seq } = head;
  const report = session.progress();
  for await (const records of readBatches(head, source)) {
    if (session.signal.aborted) throw interrupted();
    await append(session, log, records);
    seq += records.length;
    report(`${seq} of ${source.manifest.log.position} commits`);
  }
}

/** Appends records in order, and retries until all are acknowledged. Duplicates are harmless, because readers skip them. */
async function append(session: Session, log: ControlLog, records: readonly LogRecord[]): Promise<void> {
  const untilMs = performance.now() + retryForMs;
  const backoff = new Backoff({ minMs: 50, maxMs: 2000 });
  for (;;) {
    if (session.signal.aborted) throw interrupted();
    const done = await Promise.allSettled(
      records.map(({ value, signature }) => log.append(value, signature)),
    );
    const failed = done.find((one) => one.status === 'rejected');
    if (!failed) return;
    const { name } = failed.reason as Error;
    if ((name !== 'LogUnavailable' && name !== 'AppendUnknown') || performance.now() > untilMs)
      throw failed.reason;
    // Pause to give the log time to recover, and so that Ctrl-C is noticed even if appends fail immediately.
    await backoff.pause(session.signal);
  }
}

/** Yields the commits after the log's head in batches. Throws a `CliError` if the head is not a commit of the backup. */
async function* readBatches(head: Head, { dir, manifest }: Source): AsyncIterable<LogRecord[]> {
  let batch: LogRecord[] = [];
  let seq = 0;
  for await (const record of readRecords(dir, manifest)) {
    seq++;
    if (seq === head.seq && recordHash(record.value) !== head.hash) throw otherLogError(head);
    if (seq > head.seq) batch.push(record);
    if (batch.length < appendsAtOnce) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function* readRecords(dir: string, { segments }: Manifest): AsyncIterable<LogRecord> {
  for (const segment of segments) for await (const records of readSegment(dir, segment)) yield* records;
}

/** Reads the log to its end, and returns its head, which identifies the last valid commit. */
async function readHead(log: ControlLog): Promise<Head & { readonly isEmpty: boolean }> {
  let head = emptyHead();
  const isEmpty = (await log.end()) === 0;
  for await (const records of batchesToEnd(log, { recordsMax: 500 })) {
    const last = judgeBatch(head, records).findLast((judgement) => 'accepted' in judgement);
    if (last && 'accepted' in last) head = last.head;
  }
  return { ...head, isEmpty };
}

/** Throws unless the log is empty, or contains part of this backup from an interrupted restore. */
function checkMayContinue(head: Head & { readonly isEmpty: boolean }, { log }: Manifest): void {
  if (head.isEmpty || (head.log === log.id && head.seq <= log.position)) return;
  throw otherLogError(head);
}

function otherLogError({ log, seq }: Head): CliError {
  return notEmptyError(
    log === null ? 'its records do not belong to a log' : `it contains log ${log}, to position ${seq}`,
  );
}

function notEmptyError(why: string, cause?: Error): CliError {
  return new CliError('the log at this address is not empty', {
    type: 'Conflict',
    why,
    cause,
    next: 'move the file or delete the topic, or give another address with --log',
  });
}

/** Writes the databases. `usage.db` gets its final name last; until then, a repeated restore starts from scratch. */
async function writeData(
  dir: string,
  dataDir: string,
  data: Manifest['data'],
  counted: PeriodUse,
): Promise<void> {
  const usageFirst = data.toSorted((a, b) => Number(b.name === 'usage.db') - Number(a.name === 'usage.db'));
  const names = usageFirst.flatMap(({ name }) => (name === 'usage.db' ? [name, 'counters.db'] : [name]));
  const usageLast = names.toReversed();
  const partOf = (name: string): string => join(dataDir, name + partSuffix);
  for (const name of usageLast)
    for (const path of [join(dataDir, name), partOf(name)])
      for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
  for (const { name, file } of usageFirst) {
    mkdirSync(dirname(partOf(name)), { recursive: true, mode: 0o700 });
    await copyToNew(join(dir, file), partOf(name));
    if (name === 'usage.db') replaceLostCounters(partOf('counters.db'), adoptUsage(partOf(name)), counted);
  }
  for (const name of usageLast) {
    await publishFile(partOf(name), join(dataDir, name));
    await syncFolder(dirname(join(dataDir, name)));
  }
}

/** Prepares `usage.db` to read the new usage topic from its start. Rows already in its totals are not counted again. */
function adoptUsage(path: string): readonly PoolTotal[] {
  const store = openUsageStore(path);
  try {
    for (let partition = 0; partition < usagePartitions; partition++) store.restart(partition);
    return store.poolTotals();
  } finally {
    store.close();
  }
}

/**
 * Writes counters for usage that was lost with the old gateways. The lost usage is the difference between the totals and the
 * counters that are still known. The control planes publish these counters under a replica id of their own.
 */
function replaceLostCounters(path: string, totals: readonly PoolTotal[], counted: PeriodUse): void {
  const entries = totals.map(({ organisation, period, tokens, requests }): CounterEntry => {
    const known = counted(organisation, period);
    return [organisation, period, Math.max(tokens - known.tokens, 0), Math.max(requests - known.requests, 0)];
  });
  const state = new CounterState();
  const replica = { id: rowsReplica, process: randomUUID(), name: undefined, ownMs: 0, anyMs: 0 };
  state.restore(replica, entries);
  // Create the file here with restricted permissions, because SQLite would let other users read it.
  writeFileSync(path, '', { flag: 'wx', mode: 0o600 });
  const copy = openCounterCopy(path);
  try {
    copy.save(state, 0);
  } finally {
    copy.close();
  }
}
