/**
 * While builds of two versions run side by side: an event that a reader must not pass over is written only once every
 * gateway has said that it knows it. A gateway that does not would stand still there, and its freshness run out.
 */
import { foldVersionNeeded, type KnownEvent } from '../../schemas/events.ts';
import { CommandError } from '../core/command-error.ts';

export interface LogReader {
  readonly name: string;
  /** As it last reported. */
  readonly foldVersion: number;
}

/**
 * `readers`: who folds the log and has not said good-bye, silent ones included; undefined while that is not known yet.
 * Throws GuardRefused, or LogUnavailable where it cannot be decided yet.
 */
export function checkReaders(
  events: readonly KnownEvent[],
  readers: () => readonly LogReader[] | undefined,
  lowest = 1,
): void {
  const needed = Math.max(0, ...events.map(foldVersionNeeded));
  // Every build in use knows the first version.
  if (needed <= lowest) return;
  const known = readers();
  if (known === undefined)
    throw new CommandError('LogUnavailable', 'which gateways there are is not known yet', {
      next: 'try again in a moment',
    });
  const behind = known.filter(({ foldVersion }) => foldVersion < needed).map(({ name }) => name);
  if (behind.length === 0) return;
  throw new CommandError(
    'GuardRefused',
    `this writes what these gateways do not know yet and would stand still at: ${behind.slice(0, 20).join(', ')}`,
    { next: 'upgrade them first, or repeat with --force where they are gone for good' },
  );
}
