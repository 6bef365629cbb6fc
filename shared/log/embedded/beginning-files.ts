/**
 * The beginning of an embedded log that was cut, in files of its folder: `TOPIC.beginning.json` says where the log begins, and
 * names the file of the state there. The first is replaced in one step once the second is on the disk, and only then records are
 * removed: each reader that finds it begins there, whether the records before it are removed already or not.
 * They are files of their own, because earlier builds refuse a database with tables that they do not know.
 */
import { createHash, type Hash } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { idSchema } from '../../../schemas/names.ts';
import { errorCode } from '../../runtime/error-code.ts';
import { readNamed, streamNamed } from '../../runtime/named-file.ts';
import { writeFileAtomically } from '../../runtime/ready-file.ts';
import { recordHash } from '../core/chain.ts';
import { type LogBeginning, type LogRecord, LogUnreadable } from '../core/control-log.ts';

const bytesMax = 64 * 1024 * 1024;
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const factsSchema = z.strictObject({
  v: z.literal(1),
  log: idSchema,
  seq: z.int().min(1),
  hash: sha256,
  signers: z.array(z.string().max(200)).max(16),
  offset: z.int().min(0),
  foldVersion: z.int().min(0),
  /** In base64. */
  trust: z.array(z.strictObject({ value: z.string(), signature: z.string().nullable() })).min(1),
  /** In the same folder. */
  state: z.strictObject({
    file: z.string().regex(/^[A-Za-z0-9._-]{1,200}$/),
    bytes: z.int().min(1),
    sha256,
  }),
});

export type BeginningFacts = z.infer<typeof factsSchema>;

/** What is at the path of a log, without its ending. */
function stemOf(logPath: string): string {
  return logPath.replace(/\.db$/, '');
}

/** Of the file that says where a log begins. */
function beginningPath(logPath: string): string {
  return `${stemOf(logPath)}.beginning.json`;
}

/** Of the state at a position, as one fold makes it. */
export function beginningStatePath(
  logPath: string,
  { seq, foldVersion }: Pick<LogBeginning, 'seq' | 'foldVersion'>,
): string {
  return `${stemOf(logPath)}.beginning-${seq}-${foldVersion}.db`;
}

/** Undefined where the log has none. Throws LogUnreadable where it is damaged, or that of another log. */
export function readBeginning(
  logPath: string,
  recordAt: (offset: number) => LogRecord | undefined,
): LogBeginning | undefined {
  const path = beginningPath(logPath);
  if (!existsSync(path)) return undefined;
  const facts = parse(textOf(path));
  if (facts === undefined) throw unusable(path, 'it is not what was written');
  const record = recordAt(facts.offset);
  if (record === undefined || recordHash(record.value) !== facts.hash)
    throw unusable(
      path,
      `${basename(logPath)} does not have commit ${facts.seq} of log ${facts.log} at its place`,
    );
  const { log, seq, hash, signers, offset, foldVersion, state } = facts;
  const trust = facts.trust.map(({ value, signature }, index) => ({
    offset: index,
    value: Buffer.from(value, 'base64'),
    signature: signature === null ? null : Buffer.from(signature, 'base64'),
  }));
  const copyTo = (to: string): Promise<void> => copyState(join(dirname(path), state.file), to, state);
  return { log, seq, hash, signers, offset, foldVersion, trust, copyTo };
}

/** From here on the log begins there. The file of the state must be on the disk. */
export function writeBeginning(logPath: string, facts: BeginningFacts): void {
  writeFileAtomically(beginningPath(logPath), render(facts));
}

function textOf(path: string): string {
  try {
    return readNamed(path, bytesMax, { refuseLinks: true }).toString('utf8');
  } catch (error) {
    throw unusable(path, error instanceof Error ? error.message : String(error));
  }
}

/** Written in one way only, so that every changed byte is noticed. */
function parse(text: string): BeginningFacts | undefined {
  try {
    const facts = factsSchema.safeParse((JSON.parse(text) as { beginning?: unknown }).beginning).data;
    return facts !== undefined && render(facts) === text ? facts : undefined;
  } catch {
    return undefined;
  }
}

function render(beginning: BeginningFacts): string {
  const sum = createHash('sha256').update(JSON.stringify(beginning)).digest('hex');
  return `${JSON.stringify({ beginning, sha256: sum }, null, 2)}\n`;
}

async function copyState(
  from: string,
  to: string,
  { bytes, sha256: sum }: BeginningFacts['state'],
): Promise<void> {
  const hash = createHash('sha256');
  let copied = 0;
  try {
    const source = streamNamed(from, { refuseLinks: true, bytesMax: bytes });
    const counted = hashed(hash, (length) => {
      copied += length;
    });
    await pipeline(source, counted, createWriteStream(to, { flags: 'wx', mode: 0o600 }));
  } catch (error) {
    const why = errorCode(error) === 'ENOENT' ? 'it is missing' : (error as Error).message;
    throw unusable(from, why, madeAgain);
  }
  if (copied !== bytes || hash.digest('hex') !== sum)
    throw unusable(from, 'it is not what was written', madeAgain);
}

function hashed(hash: Hash, onBytes: (length: number) => void): Transform {
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      hash.update(chunk);
      onBytes(chunk.length);
      done(null, chunk);
    },
  });
}

const putBack = 'put it back from a copy of the folder of the log';
const madeAgain = 'run headgate log archive again with the archive, which makes it again';

function unusable(path: string, why: string, next = putBack): LogUnreadable {
  return new LogUnreadable(
    `the log begins behind commits that were archived, and ${path} cannot be used: ${why}; ${next}, see docs/log-archive.md`,
  );
}
