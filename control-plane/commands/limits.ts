/**
 * How many resources the state may hold. The writer enforces these bounds, so that every reader can rely on them.
 * Checked over the events of a command, whichever command made them.
 */
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { count } from '../../shared/runtime/statements.ts';
import { CommandError } from '../core/command-error.ts';
import { findBounds } from '../state/catalog.ts';
import { type Bound, boundsOf, cardinalityLimits, roomFor } from './counted-events.ts';

/** Throws CommandError Conflict where these events would exceed a limit. Their removals are not subtracted. */
export function* checkCardinality(
  db: Database,
  events: readonly KnownEvent[],
  nowMs: number,
): Generator<void, void> {
  const added = new Map<string, { bound: Bound; more: number }>();
  for (const event of events) {
    for (const each of boundsOf(db, event, nowMs)) {
      const id = `${each.name} ${each.of}`;
      const before = added.get(id);
      added.set(id, { bound: each, more: (before?.more ?? 0) + 1 });
    }
    yield;
  }
  const limits = { ...cardinalityLimits, ...findBounds(db) };
  for (const { bound: each, more } of added.values()) {
    yield;
    const max = limits[each.name];
    const there = thereAre(db, each, max - more);
    if (there + more > max)
      throw new CommandError(
        'Conflict',
        `there may be at most ${max} of ${each.name}${each.of && ` (${each.of})`}; there are ${there}, and this adds ${more}`,
        { next: roomFor[each.name] },
      );
  }
}

function thereAre(db: Database, { sql, values, exact }: Bound, roomUpTo: number): number {
  const there = count(db, sql, ...values);
  return exact && there > roomUpTo ? count(db, exact.sql, ...exact.values) : there;
}
