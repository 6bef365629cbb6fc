/**
 * A commit is one record of the control log. It contains all events of one command, which are applied as a whole. The accept
 * rule uses only the envelope, whose format is frozen so that different versions cannot fork the chain.
 */
import { z } from 'zod';
import type { StoredEvent } from './events.ts';

export const controlTopic = 'headgate.control';

export const commitBytesMax = 900 * 1024;

/** Interface through which a command arrived. */
export type Via = 'console' | 'cli' | 'api' | 'agent';

/** Value of `prev` in the first commit of a log. */
export const genesisPrev = '0'.repeat(64);

const storedEventSchema = z.object({
  type: z.string(),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Schema of a commit. It is deliberately loose, so that this version ignores fields that later versions add. */
export const commitSchema = z.object({
  v: z.literal(1),
  log: z.string(),
  seq: z.int().min(1),
  /** SHA-256 of the raw bytes of the previous accepted record, in hex. */
  prev: z.string().regex(/^[0-9a-f]{64}$/),
  /** Id of the command, used to recognise a repetition of the command. */
  id: z.string(),
  /** SHA-256 of the command's canonical text, in hex. */
  command: z.string().optional(),
  at: z.string(),
  by: z.string(),
  why: z.string().optional(),
  /** Interface through which the command arrived. Earlier records do not contain it. An invalid value is dropped. */
  via: z.string().max(20).optional().catch(undefined),
  events: z.array(storedEventSchema),
});

export type Commit = Readonly<Omit<z.infer<typeof commitSchema>, 'events'>> & {
  readonly events: readonly StoredEvent[];
};

/** Parses the commit in the raw bytes of a record. Returns undefined if the bytes do not contain a commit. Never throws. */
export function parseCommit(raw: Uint8Array): Commit | undefined {
  try {
    const parsed = commitSchema.safeParse(
      JSON.parse(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString('utf8')),
    );
    return parsed.success ? (parsed.data as Commit) : undefined;
  } catch {
    return undefined;
  }
}
