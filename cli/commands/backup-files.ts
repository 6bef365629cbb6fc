/** Files of a backup. Each is written under a temporary name, flushed and renamed. `zcat log-*.jsonl.gz` prints the log. */
import { createHash } from 'node:crypto';
import { createWriteStream, lstatSync, type ReadStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { gatewaysSql } from '../../control-plane/gateways/gateways-tables.ts';
import { dayFormat } from '../../control-plane/usage/day-files.ts';
import { usageFormat } from '../../control-plane/usage/usage-tables.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { NoRegularFile, streamNamed } from '../../shared/runtime/named-file.ts';
import { mapSqliteError, openDatabase, refuseForeignSchema } from '../../shared/runtime/sqlite.ts';
import { CliError } from '../terminal/errors.ts';
import { type BackupFile, type DataFile, damagedError } from './backup-manifest.ts';
import { parseRecords, splitLines } from './exported-log.ts';

export const partSuffix = '.part';

/** Writes one segment of the log, and returns its size and checksum. */
export async function writeSegment(
  dir: string,
  file: string,
  records: AsyncIterable<LogRecord>,
): Promise<BackupFile> {
  const part = join(dir, file + partSuffix);
  await rm(part, { force: true });
  const sum = new Checksum();
  const target = createWriteStream(part, { flags: 'wx', mode: 0o600 });
  // Records consist mostly of hashes, so stronger compression would save little.
  await pipeline(Readable.from(formatLines(records)), createGzip({ level: 4 }), sum, target);
  await finish(dir, file);
  return { file, bytes: sum.bytes, sha256: sum.hex() };
}

async function* formatLines(records: AsyncIterable<LogRecord>): AsyncIterable<string> {
  let batch = '';
  for await (const { offset, value, signature } of records) {
    const signed = signature ? { signature: signature.toString('base64') } : {};
    batch += `${JSON.stringify({ offset, value: value.toString('base64'), ...signed })}\n`;
    if (batch.length < 256 * 1024) continue;
    yield batch;
    batch = '';
  }
  if (batch !== '') yield batch;
}

/** Yields a segment's records in batches, with positions as offsets. On failure, throws a `CliError` that names the file. */
export async function* readSegment(
  dir: string,
  { file, from }: { readonly file: string; readonly from: number },
): AsyncIterable<readonly LogRecord[]> {
  const source = openBackupFile(dir, file);
  const plain = createGunzip();
  source.once('error', (error) => plain.destroy(error));
  source.pipe(plain);
  try {
    yield* parseRecords(splitLines(plain), file, from);
  } catch (error) {
    throw damagedError(file, error instanceof Error ? error.message : String(error));
  } finally {
    source.destroy();
  }
}

/** Copies a database consistently and without free pages, even while another process is using it. */
export async function copyDatabase(from: string, dir: string, file: string): Promise<BackupFile> {
  const part = join(dir, file + partSuffix);
  await rm(part, { force: true });
  // Create the file here with restricted permissions, because SQLite would use the default ones.
  await (await open(part, 'wx', 0o600)).close();
  const db = openDatabase(from, { durability: 'normal', readOnly: true });
  try {
    db.prepare('VACUUM INTO ?').run(part);
  } catch (error) {
    throw mapSqliteError(error, from);
  } finally {
    db.close();
  }
  await finish(dir, file);
  return { file, bytes: lstatSync(join(dir, file)).size, sha256: await hashFile(dir, file) };
}

/** Throws a `CliError` if the file is missing or has changed since it was written. */
export async function checkFile(dir: string, { file, bytes, sha256 }: BackupFile): Promise<void> {
  const found = lstatSync(join(dir, file), { throwIfNoEntry: false })?.size;
  if (found === undefined) throw damagedError(file, 'the file is missing');
  // Check the size before reading the file, because a replaced file may be huge.
  if (found !== bytes) throw damagedError(file, `it has ${found} bytes instead of ${bytes}`);
  const sum = await hashFile(dir, file).catch((error: unknown) => {
    throw damagedError(
      file,
      error instanceof NoRegularFile ? error.message : `it cannot be read: ${String(error)}`,
    );
  });
  if (sum !== sha256) throw damagedError(file, 'its SHA-256 differs from the manifest');
}

/** Returns the schema of a current database. Returns undefined for an old one, which is checked after its upgrade. */
function expectedSchema(name: DataFile['name'], format: unknown): string | undefined {
  if (name === 'gateways.db') return gatewaysSql;
  const { version, sql } = name === 'usage.db' ? usageFormat : dayFormat;
  return format === version ? sql : undefined;
}

/** Throws a `CliError` if a copied database is damaged, or has tables that Headgate does not create. */
export function checkDatabase(dir: string, { file, name }: DataFile): void {
  const path = join(dir, file);
  try {
    const db = openDatabase(path, { durability: 'normal', readOnly: true });
    try {
      const found = db.pragma('quick_check(1)', { simple: true });
      if (found !== 'ok') throw damagedError(file, String(found));
      const sql = expectedSchema(name, db.pragma('user_version', { simple: true }));
      if (sql !== undefined) refuseForeignSchema(db, path, sql);
    } finally {
      db.close();
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw damagedError(file, error instanceof Error ? error.message : String(error));
  }
}

/** Opens a file of the backup. Only regular files are accepted, because other users may have put a pipe in its place. */
function openBackupFile(dir: string, file: string): ReadStream {
  return streamNamed(join(dir, file), { refuseLinks: true });
}

async function hashFile(dir: string, file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of openBackupFile(dir, file)) hash.update(chunk);
  return hash.digest('hex');
}

async function finish(dir: string, file: string): Promise<void> {
  await publishFile(join(dir, file + partSuffix), join(dir, file));
  await syncFolder(dir);
}

/** Flushes a folder to the disk, so that renames in it are durable. */
export async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Copies a file to a new one that only its owner can access, whatever permissions the original has. */
export async function copyToNew(from: string, to: string): Promise<void> {
  await pipeline(
    streamNamed(from, { refuseLinks: true }),
    createWriteStream(to, { flags: 'wx', mode: 0o600 }),
  );
}

/** Flushes a complete file to the disk and gives it its final name. */
export async function publishFile(part: string, path: string): Promise<void> {
  const written = await open(part, 'r+');
  try {
    await written.sync();
  } finally {
    await written.close();
  }
  await rename(part, path);
}

class Checksum extends Transform {
  bytes = 0;
  readonly #hash = createHash('sha256');

  override _transform(
    chunk: Buffer,
    _encoding: BufferEncoding,
    done: (error: null, data: Buffer) => void,
  ): void {
    this.bytes += chunk.length;
    this.#hash.update(chunk);
    done(null, chunk);
  }

  hex(): string {
    return this.#hash.digest('hex');
  }
}

/** Returns the number of completed requests in a copy of `usage.db`. */
export function completedRequests(path: string): number {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    return db.prepare('SELECT coalesce(sum(requests), 0) FROM total').pluck().get() as number;
  } catch (error) {
    throw mapSqliteError(error, path);
  } finally {
    db.close();
  }
}
