/**
 * Where a log that was cut begins, as it is kept: facts in JSON with their checksum, and the state there, which they name with
 * its length and SHA-256. The embedded log keeps both in files, the log on Kafka in a topic. What is read is untrusted: the
 * facts must be what was written, and of a commit that the log has; the state is checked by who opens it.
 */
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { idSchema } from '../../../schemas/names.ts';
import { recordHash } from './chain.ts';
import { type LogBeginning, type LogRecord, LogUnreadable } from './control-log.ts';

const stateBytesMax = 1024 ** 4;
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const content = { bytes: z.int().min(1).max(stateBytesMax), sha256 };
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
  state: z.union([
    /** In the folder of the log. */
    z.strictObject({ file: z.string().regex(/^[A-Za-z0-9._-]{1,200}$/), ...content }),
    /** Of the first of its pieces in the topic of beginnings. */
    z.strictObject({ offset: z.int().min(0), ...content }),
  ]),
});

export type BeginningFacts = z.infer<typeof factsSchema>;
export type NewBeginning = Omit<BeginningFacts, 'v' | 'state'>;
type StateContent = Pick<BeginningFacts['state'], 'bytes' | 'sha256'>;

/** Cuts a log behind commits that were archived. Called by the command of an operator alone. */
export interface LogCutter {
  /** Where the state at this place is to be made; its owner's alone. */
  partPath(at: Pick<NewBeginning, 'seq' | 'foldVersion'>): string;
  /** Makes the state that was made at `partPath` the beginning of the log. */
  setBeginning(facts: NewBeginning): Promise<void>;
  /** Removes the records before the beginning, and what is left of earlier beginnings; yields how many records so far. */
  removeArchived(): AsyncGenerator<number>;
  /** False where so much is left that its room is used again by later commits instead. */
  compact(): Promise<boolean>;
  close(): Promise<void>;
}

/** Undefined where it is not what was written: it is written in one way only, so that every changed byte is noticed. */
export function parseBeginning(text: string): BeginningFacts | undefined {
  try {
    const facts = factsSchema.safeParse((JSON.parse(text) as { beginning?: unknown }).beginning).data;
    return facts !== undefined && renderBeginning(facts) === text ? facts : undefined;
  } catch {
    return undefined;
  }
}

export function renderBeginning(beginning: BeginningFacts): string {
  const sum = createHash('sha256').update(JSON.stringify(beginning)).digest('hex');
  return `${JSON.stringify({ beginning, sha256: sum }, null, 2)}\n`;
}

/** `record`: what the log has at the offset of the facts. Undefined where that is not their commit. */
export function beginningOf(
  facts: BeginningFacts,
  record: LogRecord | undefined,
  copyTo: LogBeginning['copyTo'],
): LogBeginning | undefined {
  if (record === undefined || recordHash(record.value) !== facts.hash) return undefined;
  const { log, seq, hash, signers, offset, foldVersion } = facts;
  const trust = facts.trust.map(({ value, signature }, index) => ({
    offset: index,
    value: Buffer.from(value, 'base64'),
    signature: signature === null ? null : Buffer.from(signature, 'base64'),
  }));
  return { log, seq, hash, signers, offset, foldVersion, trust, copyTo };
}

/** Writes a state to a new file; false where it is not what was kept. Not more of it is read than that. */
export async function writeState(
  pieces: AsyncIterable<Buffer>,
  to: string,
  { bytes, sha256: sum }: StateContent,
): Promise<boolean> {
  const hash = createHash('sha256');
  let left = bytes;
  const wanted = async function* () {
    for await (const piece of pieces) {
      left -= piece.length;
      if (left < 0) return;
      hash.update(piece);
      yield piece;
      if (left === 0) return;
    }
  };
  await pipeline(wanted, createWriteStream(to, { flags: 'wx', mode: 0o600 }));
  return left === 0 && hash.digest('hex') === sum;
}

export function unusableBeginning(name: string, why: string): LogUnreadable {
  return new LogUnreadable(
    `the log begins behind commits that were archived, and ${name} cannot be used: ${why}; ` +
      'run headgate log archive again with the archive, which makes it again, see docs/log-archive.md',
  );
}
