/**
 * Rolling upgrades: a critical event is written only once every gateway has reported a fold version that knows it. A
 * gateway that does not know it would halt at it, and its freshness would expire.
 */
import { foldVersionNeeded, type KnownEvent } from '../../schemas/events/events.ts';
import { CommandError } from '../core/command-error.ts';

export interface LogReader {
  readonly name: string;
  /** As it last reported. */
  readonly foldVersion: number;
}

/**
 * `readers`: gateways that have not deregistered, silent ones included; undefined while they are not known yet.
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
    throw new CommandError('LogUnavailable', 'the gateways are not known yet', {
      next: 'try again in a moment',
    });
  const behind = known.filter(({ foldVersion }) => foldVersion < needed).map(({ name }) => name);
  if (behind.length === 0) return;
  throw new CommandError(
    'GuardRefused',
    `these gateways do not know an event of this command yet and would halt at it: ${behind.slice(0, 20).join(', ')}`,
    { next: 'upgrade them first, or repeat with --force where they were removed' },
  );
}
