/**
 * The guard against emptying the fleet by mistake: a command that removes at least 10 resources and more than 10 % of their
 * kind needs force. Dependents count: an organisation is removed with its members, keys, stacks and nodes. Revoking one key
 * removes one resource, so it never needs force.
 */
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { count } from '../../shared/runtime/statements.ts';
import { CommandError } from '../core/command-error.ts';
import { type ResourceKind, removalsOf, resourceTotals } from './counted-events.ts';

const removedMin = 10;
const shareMax = 0.1;

/** Throws CommandError GuardRefused where the events remove too much. */
export function* guardRemovals(db: Database, events: readonly KnownEvent[]): Generator<void, void> {
  const kinds = Object.keys(resourceTotals) as ResourceKind[];
  const removed = Object.fromEntries(kinds.map((kind) => [kind, new Set()])) as Record<
    ResourceKind,
    Set<string>
  >;
  for (const event of events) {
    for (const [kind, id] of removalsOf(db, event)) removed[kind].add(id);
    yield;
  }
  for (const { type, data } of events) {
    // It moves before its old place is removed.
    if (type === 'node.registered') removed.node.delete(data.id);
  }
  for (const kind of kinds) {
    const size = removed[kind].size;
    if (size < removedMin) continue;
    const total = count(db, resourceTotals[kind]);
    if (size > total * shareMax)
      throw new CommandError('GuardRefused', `this would remove ${size} of ${total} (${kind})`, {
        next: 'check with a dry run what it would remove, then repeat it with force',
      });
  }
}
