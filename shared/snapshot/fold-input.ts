/** What the log hands to the fold, made safe to fold: records in order, a commit's context, texts fit for messages. */
import type { Commit } from '../../schemas/commit.ts';
import { momentSchema } from '../../schemas/names.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import type { EventContext } from './fold-types.ts';

/** Records folded between two looks at the clock, and bytes of them where they are large. */
const recordsBetweenLooks = 64;
const bytesBetweenLooks = 32 * 1024;

/** Without what was read before: a record that is not folded must not move the chain either. */
export function growing(records: readonly LogRecord[], from: number): LogRecord[] {
  let next = from;
  return records.filter(({ offset }) => {
    if (offset < next) return false;
    next = offset + 1;
    return true;
  });
}

/** The records from `start` on that may be folded without a look at the clock; at least one. */
export function firstFew(records: readonly LogRecord[], start: number): LogRecord[] {
  let bytes = 0;
  let end = start;
  while (end < records.length && end - start < recordsBetweenLooks && bytes < bytesBetweenLooks)
    bytes += records[end++]?.value.length ?? 0;
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

/** Text from the log, fit for a message: a type's name is not ours to trust. */
export function printable(text: string): string {
  return /^[a-z0-9_.-]{1,64}$/i.test(text) ? text : '(unprintable)';
}
