/** Prepares records for the fold: increasing offsets, chunks of bounded size, a commit's context, printable texts. */
import type { Commit } from '../../schemas/events/commit.ts';
import { momentSchema } from '../../schemas/names.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import type { EventContext } from './effect.ts';

/** Records, and bytes of them, folded between two checks of the clock: those that take about a millisecond, and more where there is more time. */
const recordsPerMs = 13;
const bytesPerMs = 6 * 1024;
const msMax = 5;

/** Drops records that were read before: a record that is not folded must not move the chain either. */
export function withIncreasingOffsets(records: readonly LogRecord[], from: number): LogRecord[] {
  let next = from;
  return records.filter(({ offset }) => {
    if (offset < next) return false;
    next = offset + 1;
    return true;
  });
}

/** The records from `start` on that may be folded before the next check of the clock; at least one. */
export function nextChunk(records: readonly LogRecord[], start: number, budgetMs: number): LogRecord[] {
  const ms = Math.min(budgetMs, msMax);
  let bytes = 0;
  let end = start;
  const hasRoom = (): boolean => end - start < ms * recordsPerMs && bytes < ms * bytesPerMs;
  while (end < records.length && (end === start || hasRoom())) bytes += records[end++]?.value.length ?? 0;
  return records.slice(start, end);
}

/** The context in which a commit's events are folded. */
export function contextOf(commit: Pick<Commit, 'seq' | 'at' | 'by'>): EventContext {
  return {
    seq: commit.seq,
    // Other forms of a time would be read in the time zone of this process.
    atMs: momentSchema.safeParse(commit.at).success ? Date.parse(commit.at) : 0,
    by: commit.by.slice(0, 200),
  };
}

/** Text from the log, made safe for a message: the name of an event type is untrusted. */
export function printable(text: string): string {
  return /^[a-z0-9_.-]{1,64}$/i.test(text) ? text : '(unprintable)';
}
