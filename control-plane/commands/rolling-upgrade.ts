/** Refuses critical events until all gateways know their types, because a gateway on an older build would stop folding. */
import { foldVersionNeeded, type KnownEvent } from '../../schemas/events/events.ts';
import { CommandError } from '../core/command-error.ts';

export interface LogReader {
  readonly name: string;
  /** Fold version that the gateway last reported. */
  readonly foldVersion: number;
}

/** Throws `GuardRefused` if any gateway, even a silent one, is too old, or `LogUnavailable` while gateways are not known. */
export function checkReaders(
  events: readonly KnownEvent[],
  readers: () => readonly LogReader[] | undefined,
  lowest = 1,
): void {
  const needed = Math.max(0, ...events.map(foldVersionNeeded));
  // All builds in use know the events of the lowest fold version, so no gateway needs to be checked.
  if (needed <= lowest) return;
  const known = readers();
  if (known === undefined)
    throw new CommandError('LogUnavailable', 'the list of gateways is not known yet', {
      next: 'try again in a moment',
    });
  const behind = known.filter(({ foldVersion }) => foldVersion < needed).map(({ name }) => name);
  if (behind.length === 0) return;
  throw new CommandError(
    'GuardRefused',
    `these gateways do not know an event of this command yet and would halt at it: ${behind.slice(0, 20).join(', ')}`,
    { next: 'upgrade them first, or repeat with --force if they were removed' },
  );
}
