/**
 * Protects rolling upgrades: a critical event is written only once every gateway has reported a fold version that knows it. A
 * gateway that does not know it would stop folding there, and its freshness would expire.
 */
import { foldVersionNeeded, type KnownEvent } from '../../schemas/events/events.ts';
import { CommandError } from '../core/command-error.ts';

export interface LogReader {
  readonly name: string;
  /** Version that the gateway last reported. */
  readonly foldVersion: number;
}

/**
 * Throws GuardRefused if a gateway is too old for these events, or LogUnavailable if that cannot be decided yet. `readers`
 * returns the gateways that have not deregistered, including silent ones; undefined until they are known.
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
