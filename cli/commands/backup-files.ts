/**
 * The files of a backup. Each is written under a temporary name, flushed and then renamed, with the mode of its owner only.
 * A segment has the form of `headgate events export`, compressed: `zcat log-*.jsonl.gz` gives the exported log.
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { mapSqliteError, openDatabase } from '../../shared/runtime/sqlite.ts';
import { CliError } from '../terminal/errors.ts';
import { type BackupFile, damaged } from './backup-manifest.ts';
import { linesOf, recordOf } from './exported-log.ts';

export const partSuffix = '.part';

/** Writes one segment and returns its facts. */
export async function writeSegment(
  dir: string,
  file: string,
  records: AsyncIterable<LogRecord>,
): Promise<BackupFile> {
  const part = join(dir, file + partSuffix);
  await rm(part, { force: true });
  const sum = new Checksum();
  const target = createWriteStream(part, { flags: 'wx', mode: 0o600 });
  // Records repeat their shape but hold hashes, so more effort saves little.
  await pipeline(Readable.from(linesFrom(records)), createGzip({ level: 4 }), sum, target);
  await finish(dir, file);
  return { file, bytes: sum.bytes, sha256: sum.hex() };
}

async function* linesFrom(records: AsyncIterable<LogRecord>): AsyncIterable<string> {
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

/** The records of a segment, in batches; their offsets are their positions. Throws a CliError that names the file. */
export async function* readSegment(
  dir: string,
  { file, from }: { readonly file: string; readonly from: number },
): AsyncIterable<readonly LogRecord[]> {
  const source = createReadStream(join(dir, file));
  const plain = createGunzip();
  source.once('error', (error) => plain.destroy(error));
  source.pipe(plain);
  let batch: LogRecord[] = [];
  let position = from;
  try {
    for await (const line of linesOf(plain)) {
      batch.push(recordOf(line, file, position++));
      if (batch.length < 500) continue;
      yield batch;
      batch = [];
    }
  } catch (error) {
    throw damaged(file, error instanceof Error ? error.message : String(error));
  } finally {
    source.destroy();
  }
  if (batch.length > 0) yield batch;
}

/** A consistent copy of a database that another process may use, without its free pages. */
export async function copyDatabase(from: string, dir: string, file: string): Promise<BackupFile> {
  const part = join(dir, file + partSuffix);
  await rm(part, { force: true });
  // Created first, because SQLite would create it with default permissions.
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
  return { file, ...(await factsOf(join(dir, file))) };
}

/** Throws a CliError where the file is missing or differs from what was written. */
export async function checkFile(dir: string, { file, bytes, sha256 }: BackupFile): Promise<void> {
  const found = await factsOf(join(dir, file)).catch((error: unknown) => {
    throw damaged(
      file,
      errorCode(error) === 'ENOENT' ? 'the file is missing' : `it cannot be read: ${String(error)}`,
    );
  });
  if (found.bytes !== bytes) throw damaged(file, `it has ${found.bytes} bytes instead of ${bytes}`);
  if (found.sha256 !== sha256) throw damaged(file, 'its SHA-256 is not that of the manifest');
}

/** A copied database whose pages contradict each other. */
export function checkDatabase(path: string, file: string): void {
  try {
    const db = openDatabase(path, { durability: 'normal', readOnly: true });
    try {
      const found = db.pragma('quick_check(1)', { simple: true });
      if (found !== 'ok') throw damaged(file, String(found));
    } finally {
      db.close();
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw damaged(file, error instanceof Error ? error.message : String(error));
  }
}

async function factsOf(path: string): Promise<Omit<BackupFile, 'file'>> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(chunk);
  return { bytes: (await stat(path)).size, sha256: hash.digest('hex') };
}

async function finish(dir: string, file: string): Promise<void> {
  await publishFile(join(dir, file + partSuffix), join(dir, file));
  await syncFolder(dir);
}

/** What was renamed in it is on the disk. */
export async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** A new file with the bytes of another, for its owner only, whatever the mode of that one. */
export async function copyToNew(from: string, to: string): Promise<void> {
  await pipeline(createReadStream(from), createWriteStream(to, { flags: 'wx', mode: 0o600 }));
}

/** Gives a file that is complete its name. */
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

/** Of a copy of usage.db. */
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
