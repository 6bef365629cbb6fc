/**
 * A commit: one record of the control log, one command's events, atomic.
 * Only the envelope takes part in the accept rule, and it is frozen: a version skew can never fork the chain.
 */
import { z } from 'zod';
import type { StoredEvent } from './events.ts';

/** The topic of the control log. */
export const controlTopic = 'headgate.control';

/** The largest commit a writer may append, bytes of its record. */
export const commitBytesMax = 900 * 1024;

/** The way by which a command came in. */
export type Via = 'console' | 'cli' | 'api' | 'agent';

/** `prev` of the first commit. */
export const genesisPrev = '0'.repeat(64);

const storedEventSchema = z.object({
  type: z.string(),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Loose on purpose: fields that a later writer adds are ignored by this reader. */
export const commitSchema = z.object({
  v: z.literal(1),
  log: z.string(),
  seq: z.int().min(1),
  /** SHA-256 of the previous accepted record's raw bytes, hex. */
  prev: z.string().regex(/^[0-9a-f]{64}$/),
  /** Id of the command; a repeat with the same id is recognised by it. */
  id: z.string(),
  /** SHA-256 of the command's canonical text, hex. */
  command: z.string().optional(),
  at: z.string(),
  by: z.string(),
  why: z.string().optional(),
  /** By which way the command came; absent in records of earlier writers. Information only: whatever it is, the record counts. */
  via: z.string().max(20).optional().catch(undefined),
  events: z.array(storedEventSchema),
});

export type Commit = Readonly<Omit<z.infer<typeof commitSchema>, 'events'>> & {
  readonly events: readonly StoredEvent[];
};

/** The commit in a record's raw bytes, or undefined where they hold none. Never throws. */
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
