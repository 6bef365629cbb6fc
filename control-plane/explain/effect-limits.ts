/**
 * Lists limits that a change lowers, with the peak use of each, because re-deciding recorded requests does not show bursts.
 */
import type { LoweredLimit } from '../../schemas/admin/effect.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all } from '../../shared/runtime/statements.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import { findAnonymous } from '../state/catalog.ts';

/** Columns of the tier table, by limit. */
const columns = {
  requestsPerMinute: 'requests_per_minute',
  concurrency: 'concurrency',
  contextTokens: 'context_tokens',
  monthlyTokens: 'monthly_tokens',
} as const;
const fields = Object.keys(columns) as (keyof typeof columns)[];

/** Limits by the names that a fleet document uses. The value `null` means unlimited. */
type Limits = Readonly<Record<string, number | null>>;
/** Known peak use of each limit, by organisation. Visitors are listed under `visitorsSubject`. */
export type Peaks = ReadonlyMap<string, Readonly<Record<string, number>>>;

/** Returns the limits on each organisation and on visitors. Omits organisations that are suspended or have no tier. */
export function readLimits(db: Database): ReadonlyMap<string, Limits> {
  const tiers = new Map(
    all<RowOf<'tier'>>(db, 'SELECT * FROM tier').map((row): [string, Limits] => [row.id, toLimits(row)]),
  );
  const found = new Map<string, Limits>();
  const sql = 'SELECT id, tier FROM organisation WHERE tier IS NOT NULL AND suspended = 0 ORDER BY id';
  for (const { id, tier } of all<{ id: string; tier: string }>(db, sql)) {
    const limits = tiers.get(tier);
    if (limits !== undefined) found.set(id, limits);
  }
  const ofVisitors = visitorLimits(db);
  if (ofVisitors !== undefined) found.set(visitorsSubject, ofVisitors);
  return found;
}

function toLimits(row: RowOf<'tier'>): Limits {
  return Object.fromEntries(fields.map((field) => [field, row[columns[field]]]));
}

/** Returns the limits on a single visitor and on all visitors together. */
function visitorLimits(db: Database): Limits | undefined {
  const anonymous = findAnonymous(db);
  const total = createLookup(db).visitorTotals();
  if (anonymous === undefined || total === undefined) return undefined;
  const { freeTurns, requestsPerMinute, concurrency, contextTokens } = anonymous;
  const ofOne = { freeTurns, requestsPerMinute, concurrency, contextTokens };
  return {
    ...Object.fromEntries(Object.entries(ofOne).map(([what, limit]) => [what, limit ?? null])),
    networkFactor: total.networkFactor,
    'total.requestsPerMinute': total.requestsPerMinute,
    'total.concurrency': total.concurrency,
    'total.tokensPerDay': total.tokensPerDay,
  };
}

function isLower(to: number, from: number | null): boolean {
  return from === null || to < from;
}

interface LimitScope {
  readonly peaks: Peaks;
  /** If set, only the limits on this organisation are compared. */
  readonly only?: string | undefined;
}

/** Finds lowered limits. Organisations with the same change are combined and counted. */
export function findLoweredLimits(
  before: ReadonlyMap<string, Limits>,
  after: ReadonlyMap<string, Limits>,
  { peaks, only }: LimitScope,
): LoweredLimit[] {
  const found = new Map<string, LoweredLimit>();
  for (const [subject, was] of before) {
    const is = after.get(subject);
    if (is === undefined || (only !== undefined && subject !== only)) continue;
    for (const [what, from = null] of Object.entries(was)) {
      const to = is[what] ?? null;
      if (to === null || !isLower(to, from)) continue;
      const isOfVisitors = subject === visitorsSubject;
      const key = JSON.stringify([isOfVisitors, what, from, to]);
      const limit = { what, from, to, peak: peaks.get(subject)?.[what] };
      const own = isOfVisitors
        ? { visitors: true as const, organisations: 0, ...limit }
        : { organisation: subject, organisations: 1, ...limit };
      found.set(key, together(found.get(key), own));
    }
  }
  return [...found.values()];
}

function together(known: LoweredLimit | undefined, more: LoweredLimit): LoweredLimit {
  if (known === undefined) return more;
  const { what, from, to, peak } = known;
  const peaks = [peak, more.peak].filter((each) => each !== undefined);
  const organisations = known.organisations + more.organisations;
  return { organisations, what, from, to, ...(peaks.length > 0 && { peak: Math.max(...peaks) }) };
}
