/**
 * A commit is one record of the control log: all events of one command, applied as a whole. Only the envelope takes part in
 * the accept rule, and its format is frozen so that builds of different versions cannot fork the chain.
 */
import { z } from 'zod';
import type { StoredEvent } from './events.ts';

export const controlTopic = 'headgate.control';

/** Maximum size of a commit's record, in bytes. */
export const commitBytesMax = 900 * 1024;

/** Interface through which a command arrived. */
export type Via = 'console' | 'cli' | 'api' | 'agent';

/** `prev` of the first commit. */
export const genesisPrev = '0'.repeat(64);

const storedEventSchema = z.object({
  type: z.string(),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Deliberately loose, so that this reader ignores fields that later versions add. */
export const commitSchema = z.object({
  v: z.literal(1),
  log: z.string(),
  seq: z.int().min(1),
  /** SHA-256 of the previous accepted record's raw bytes, in hex. */
  prev: z.string().regex(/^[0-9a-f]{64}$/),
  /** Id of the command, by which a repeated command is recognised. */
  id: z.string(),
  /** SHA-256 of the command's canonical text, in hex. */
  command: z.string().optional(),
  at: z.string(),
  by: z.string(),
  why: z.string().optional(),
  /** Interface through which the command arrived. Earlier records lack it; an invalid value is dropped. */
  via: z.string().max(20).optional().catch(undefined),
  events: z.array(storedEventSchema),
});

export type Commit = Readonly<Omit<z.infer<typeof commitSchema>, 'events'>> & {
  readonly events: readonly StoredEvent[];
};

/** Parses the commit in a record's raw bytes. Returns undefined if they do not contain one. Never throws. */
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
