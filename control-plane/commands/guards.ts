/**
 * Guards that apply to the events of every command. They limit the number of resources and the share of the fleet that is
 * removed, and prevent used tokens from becoming available again.
 */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { groupDigits } from '../../schemas/grouped.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { count } from '../../shared/runtime/statements.ts';
import { billingPeriod } from '../../shared/usage/period.ts';
import { CommandError } from '../core/command-error.ts';
import { findBounds } from '../state/catalog.ts';
import { findAdjustment, findOrganisation } from '../state/tenants.ts';
import {
  type Bound,
  cardinalityLimits,
  listBounds,
  listRemovals,
  type ResourceKind,
  resourceTotals,
  roomFor,
} from './counted-events.ts';

/** Throws `Conflict` if events would exceed a bound on resources. Resources that these events remove are not subtracted. */
export function* checkCardinality(
  db: Database,
  events: readonly KnownEvent[],
  nowMs: number,
): Generator<void, void> {
  const added = new Map<string, { bound: Bound; more: number }>();
  for (const event of events) {
    for (const each of listBounds(db, event, nowMs)) {
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
        `${each.name}${each.of && ` (${each.of})`} may be at most ${max}; this adds ${more} to ${there}`,
        { next: roomFor[each.name] },
      );
  }
}

function thereAre(db: Database, { sql, values, exact }: Bound, roomUpTo: number): number {
  const there = count(db, sql, ...values);
  return exact && there > roomUpTo ? count(db, exact.sql, ...exact.values) : there;
}

const removedMin = 10;
const shareMax = 0.1;

/** Throws `GuardRefused` if events remove at least 10 resources and more than 10 % of their kind, including dependents. */
export function* guardRemovals(db: Database, events: readonly KnownEvent[]): Generator<void, void> {
  const kinds = Object.keys(resourceTotals) as ResourceKind[];
  const removed = Object.fromEntries(kinds.map((kind) => [kind, new Set()])) as Record<
    ResourceKind,
    Set<string>
  >;
  for (const event of events) {
    for (const [kind, id] of listRemovals(db, event)) removed[kind].add(id);
    yield;
  }
  for (const { type, data } of events) {
    // A node that these events register at another place survives the removal of its old place.
    if (type === 'node.registered') removed.node.delete(data.id);
  }
  for (const kind of kinds) {
    const size = removed[kind].size;
    if (size < removedMin) continue;
    const total = count(db, resourceTotals[kind]);
    if (size > total * shareMax)
      throw new CommandError('GuardRefused', `this would remove ${size} of ${total} ${kind} resources`, {
        next: 'check the removals with a dry run, then repeat the command with force',
      });
  }
}

export interface PeriodFacts {
  readonly nowMs: number;
  readonly force?: boolean | undefined;
  /** Returns the tokens that count against an allowance, without adjustments. If absent, the period guard does nothing. */
  readonly used?: ((organisation: string, period: string) => number) | undefined;
}

/**
 * Describes used tokens that a new anchor day would no longer count. Throws `GuardRefused` if there are any, unless forced.
 */
export function guardPeriods(
  db: Database,
  events: readonly KnownEvent[],
  { nowMs, force, used }: PeriodFacts,
): string[] {
  return events.flatMap(({ type, data }) => {
    const before = type === 'organisation.set' ? findOrganisation(db, data.id) : undefined;
    if (type !== 'organisation.set' || before === undefined || used === undefined) return [];
    const was = billingPeriod(before.anchor, nowMs).start;
    const is = billingPeriod(data.anchor, nowMs).start;
    if (was === is) return [];
    const tokens = used(data.id, was) + findAdjustment(db, data.id, was);
    if (tokens <= 0) return [];
    const text = `${data.id} has used ${groupDigits(tokens)} tokens in the period from ${was}; with the anchor day ${data.anchor}, the current period begins on ${is}, and these tokens do not count in it`;
    if (force) return [text];
    throw new CommandError('GuardRefused', text, {
      next: `headgate usage show --org ${data.id}; repeat the command with --force if this is intended`,
    });
  });
}
