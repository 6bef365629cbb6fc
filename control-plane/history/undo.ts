/** Computes commands that undo a commit, if all its events have an inverse and nothing that it set has changed since. */
import { type KnownEvent, readEvent, type StoredEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { Inverse, UndoCommand } from '../../shared/snapshot/effect.ts';
import { eventEffects } from '../../shared/snapshot/effects.ts';
import { CommandError } from '../core/command-error.ts';

/** Inverse of a commit, and the rows as the commit left them, to compare with the present. It can be sent between threads. */
export interface CommitInverse {
  /** Commands in execution order. */
  readonly commands: readonly UndoCommand[];
  /** Value of each event's subject immediately after the commit, as JSON. */
  readonly subjects: readonly { readonly event: StoredEvent; readonly was: string | undefined }[];
}

/** Computes the inverse from the states before and after the commit. Throws `Conflict` if the commit cannot be undone. */
export function inverseOfCommit(
  events: readonly StoredEvent[],
  states: { readonly before: Database; readonly after: Database },
  position: number,
): CommitInverse {
  if (events.length === 0) throw noInverse(position, 'it has no events');
  const commands = new Map<string, UndoCommand>();
  const subjects: CommitInverse['subjects'][number][] = [];
  // Starts with the last event, because a later event may depend on what an earlier one created.
  for (const event of events.toReversed()) {
    const refused = (reason: string) => noInverse(position, reason, events.length > 1 ? event : undefined);
    const inverse = inverseOrReason(event);
    if (typeof inverse === 'string') throw refused(inverse);
    const command = inverse.command(states.before);
    if (typeof command === 'string') throw refused(command);
    subjects.push({ event, was: JSON.stringify(inverse.subject(states.after)) });
    // Events with the same subject share one inverse, which restores the state before all of them.
    if (command !== undefined) commands.set(JSON.stringify(command), command);
  }
  return { commands: [...commands.values()], subjects };
}

/** Throws a `Conflict` error if anything that the commit set has changed since. */
export function checkUnchanged({ subjects }: CommitInverse, now: Database, position: number): void {
  for (const { event, was } of subjects) {
    const inverse = inverseOrReason(event);
    if (typeof inverse !== 'string' && JSON.stringify(inverse.subject(now)) === was) continue;
    throw noInverse(position, 'its values have changed since', subjects.length > 1 ? event : undefined);
  }
}

/** Creates the error for a commit that cannot be undone. `of` is the event without an inverse, if the commit has several. */
function noInverse(position: number, reason: string, of?: StoredEvent): CommandError {
  const why = of === undefined ? reason : `${of.type}: ${reason}`;
  return new CommandError('Conflict', `commit ${position} has no inverse: ${why}`, {
    next: `headgate export --at ${Math.max(1, position - 1)} shows the fleet before it, which can be applied`,
  });
}

interface InverseOfEvent {
  subject(db: Database): unknown;
  command(before: Database): UndoCommand | string | undefined;
}

/** Inverse for any event type, without the type of the event's data. */
interface Invertible {
  readonly inverse: Inverse<KnownEvent['data']> | string | null;
}

function inverseOrReason(stored: StoredEvent): InverseOfEvent | string {
  const read = readEvent(stored);
  if (read.outcome !== 'known') return 'this build does not know its event';
  const { type, data } = read.event;
  const { inverse }: Invertible = eventEffects[type];
  if (inverse === null) return `${type} cannot be reversed`;
  if (typeof inverse === 'string') return inverse;
  return {
    subject: (db) => inverse.subject(db, data),
    command: (before) => inverse.command(before, data),
  };
}
