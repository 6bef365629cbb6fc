/** The commands that take a commit back: where each of its events has an inverse, and nothing that it set has changed since. */
import { type KnownEvent, readEvent, type StoredEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { Inverse, UndoCommand } from '../../shared/snapshot/effect.ts';
import { eventEffects } from '../../shared/snapshot/effects.ts';
import { CommandError } from '../core/command-error.ts';

/**
 * The inverse of a commit, for as long as what the commit set is as the commit left it. It depends on the past alone, so it is
 * found once, and the present is only compared with it. Plain data, which crosses threads.
 */
export interface CommitInverse {
  /** In the order in which they are to be sent. */
  readonly commands: readonly UndoCommand[];
  /** What each event was about, right after the commit; JSON. */
  readonly subjects: readonly { readonly event: StoredEvent; readonly was: string | undefined }[];
}

/** Of the states around the commit. Throws CommandError Conflict, with the reason, where an event has no inverse. */
export function inverseOfCommit(
  events: readonly StoredEvent[],
  states: { readonly before: Database; readonly after: Database },
  position: number,
): CommitInverse {
  if (events.length === 0) throw noInverse(position, 'it has no events');
  const commands = new Map<string, UndoCommand>();
  const subjects: CommitInverse['subjects'][number][] = [];
  // The last one first: what an event made may be what a later one is about.
  for (const event of events.toReversed()) {
    const refused = (reason: string) => noInverse(position, reason, events.length > 1 ? event : undefined);
    const inverse = inverseOrReason(event);
    if (typeof inverse === 'string') throw refused(inverse);
    const command = inverse.command(states.before);
    if (typeof command === 'string') throw refused(command);
    subjects.push({ event, was: JSON.stringify(inverse.subject(states.after)) });
    // Two events of one subject have one inverse: what was before both.
    if (command !== undefined) commands.set(JSON.stringify(command), command);
  }
  return { commands: [...commands.values()], subjects };
}

/** Throws CommandError Conflict where what the commit set has changed since. */
export function checkUnchanged({ subjects }: CommitInverse, now: Database, position: number): void {
  for (const { event, was } of subjects) {
    const inverse = inverseOrReason(event);
    if (typeof inverse !== 'string' && JSON.stringify(inverse.subject(now)) === was) continue;
    throw noInverse(position, 'what it set has changed since', subjects.length > 1 ? event : undefined);
  }
}

/** `of`: the event that it is about, where the commit has several. */
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

/** Of any type, whose data are those of its event. */
interface Invertible {
  readonly inverse: Inverse<KnownEvent['data']> | string | null;
}

/** A text: why there is none. */
function inverseOrReason(stored: StoredEvent): InverseOfEvent | string {
  const read = readEvent(stored);
  if (read.outcome !== 'known') return 'this build does not know its event';
  const { type, data } = read.event;
  const { inverse }: Invertible = eventEffects[type];
  if (inverse === null) return `${type} cannot be taken back`;
  if (typeof inverse === 'string') return inverse;
  return {
    subject: (db) => inverse.subject(db, data),
    command: (before) => inverse.command(before, data),
  };
}
