/** Which limits of which organisations a change lowers. */
import type { LoweredLimit } from '../../schemas/effect.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import { all } from '../state/statements.ts';

/** Columns of a tier, by the names of its fields. */
const columns = {
  requestsPerMinute: 'requests_per_minute',
  concurrency: 'concurrency',
  contextTokens: 'context_tokens',
  monthlyTokens: 'monthly_tokens',
} as const;
type Limits = Readonly<Record<keyof typeof columns, number | null>>;

/** By organisation; organisations without a plan have none. */
export function limitsOn(db: Database): ReadonlyMap<string, Limits> {
  const tiers = new Map(
    all<RowOf<'tier'>>(db, 'SELECT * FROM tier').map((row): [string, Limits] => [row.id, limitsOf(row)]),
  );
  const found = new Map<string, Limits>();
  const sql = 'SELECT id, tier FROM organisation WHERE tier IS NOT NULL AND suspended = 0 ORDER BY id';
  for (const { id, tier } of all<{ id: string; tier: string }>(db, sql)) {
    const limits = tiers.get(tier);
    if (limits !== undefined) found.set(id, limits);
  }
  return found;
}

function limitsOf(row: RowOf<'tier'>): Limits {
  return Object.fromEntries(fields.map((field) => [field, row[columns[field]]])) as Limits;
}

const fields = Object.keys(columns) as (keyof typeof columns)[];

/** Each lowered limit once, with the number of organisations that have it; of one organisation alone where it is given. */
export function lowered(
  before: ReadonlyMap<string, Limits>,
  after: ReadonlyMap<string, Limits>,
  only?: string,
): LoweredLimit[] {
  const found = new Map<string, LoweredLimit>();
  for (const [organisation, was] of before) {
    const is = after.get(organisation);
    if (is === undefined || (only !== undefined && organisation !== only)) continue;
    for (const what of fields) {
      const [from, to] = [was[what], is[what]];
      if (to === null || (from !== null && from <= to)) continue;
      const key = `${what} ${from} ${to}`;
      const known = found.get(key);
      found.set(
        key,
        known === undefined
          ? { organisation, organisations: 1, what, from, to }
          : { organisations: known.organisations + 1, what, from, to },
      );
    }
  }
  return [...found.values()];
}
