/** Prepares log records for folding: drops repeated offsets, cuts bounded chunks, and derives each commit's context. */
import type { Commit } from '../../schemas/events/commit.ts';
import { momentSchema } from '../../schemas/names.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import type { EventContext } from './effect.ts';

/** Number of records and bytes that take about 1 ms to fold. The clock is checked again after at most `msMax` ms of work. */
const recordsPerMs = 13;
const bytesPerMs = 6 * 1024;
const msMax = 5;

/** Drops records that were read before, because they must not extend the chain of commits a second time. */
export function withIncreasingOffsets(records: readonly LogRecord[], from: number): LogRecord[] {
  let next = from;
  return records.filter(({ offset }) => {
    if (offset < next) return false;
    next = offset + 1;
    return true;
  });
}

/** Returns the records from `start` that may be folded before the clock is checked again. Always returns at least one. */
export function nextChunk(records: readonly LogRecord[], start: number, budgetMs: number): LogRecord[] {
  const ms = Math.min(budgetMs, msMax);
  let bytes = 0;
  let end = start;
  const hasRoom = (): boolean => end - start < ms * recordsPerMs && bytes < ms * bytesPerMs;
  while (end < records.length && (end === start || hasRoom())) bytes += records[end++]?.value.length ?? 0;
  return records.slice(start, end);
}

/** Returns the facts about a commit that its events' effects depend on. */
export function eventContext(commit: Pick<Commit, 'seq' | 'at' | 'by'>): EventContext {
  return {
    seq: commit.seq,
    // Accept only this format, because `Date.parse` would read some other formats in the time zone of this process.
    atMs: momentSchema.safeParse(commit.at).success ? Date.parse(commit.at) : 0,
    by: commit.by.slice(0, 200),
  };
}

/** Replaces untrusted text from the log, such as an event type's name, unless it is safe to print. */
export function printable(text: string): string {
  return /^[a-z0-9_.-]{1,64}$/i.test(text) ? text : '(unprintable)';
}
