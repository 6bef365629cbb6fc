/** Prepares log records for the fold: drops repeated offsets, cuts bounded chunks, and derives each commit's context. */
import type { Commit } from '../../schemas/events/commit.ts';
import { momentSchema } from '../../schemas/names.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import type { EventContext } from './effect.ts';

/** Records and bytes that fold in about 1 ms. A chunk between two clock checks is worth up to `msMax` ms. */
const recordsPerMs = 13;
const bytesPerMs = 6 * 1024;
const msMax = 5;

/** Drops records that were read before. A record that is not folded must not move the chain either. */
export function withIncreasingOffsets(records: readonly LogRecord[], from: number): LogRecord[] {
  let next = from;
  return records.filter(({ offset }) => {
    if (offset < next) return false;
    next = offset + 1;
    return true;
  });
}

/** Returns the records from `start` that may be folded before the next clock check; at least one. */
export function nextChunk(records: readonly LogRecord[], start: number, budgetMs: number): LogRecord[] {
  const ms = Math.min(budgetMs, msMax);
  let bytes = 0;
  let end = start;
  const hasRoom = (): boolean => end - start < ms * recordsPerMs && bytes < ms * bytesPerMs;
  while (end < records.length && (end === start || hasRoom())) bytes += records[end++]?.value.length ?? 0;
  return records.slice(start, end);
}

/** Returns the context in which a commit's events are folded. */
export function eventContext(commit: Pick<Commit, 'seq' | 'at' | 'by'>): EventContext {
  return {
    seq: commit.seq,
    // Date.parse would read other time formats in this process's time zone.
    atMs: momentSchema.safeParse(commit.at).success ? Date.parse(commit.at) : 0,
    by: commit.by.slice(0, 200),
  };
}

/** Makes text from the log safe for messages, because event type names are untrusted. */
export function printable(text: string): string {
  return /^[a-z0-9_.-]{1,64}$/i.test(text) ? text : '(unprintable)';
}
