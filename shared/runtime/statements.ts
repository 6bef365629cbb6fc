/** Prepared reads over a snapshot's database. Each statement is prepared once per database and does not outlive it. */
import type { Database, Statement } from './sqlite.ts';
import type { SqlValue } from './table-columns.ts';

const caches = new WeakMap<Database, Map<string, Statement>>();

function prepared<Row>(db: Database, sql: string): Statement<SqlValue[], Row> {
  const cache = caches.get(db) ?? new Map<string, Statement>();
  if (!caches.has(db)) caches.set(db, cache);
  const statement = cache.get(sql) ?? db.prepare(sql);
  cache.set(sql, statement);
  return statement as Statement<SqlValue[], Row>;
}

/** Returns all rows. `sql` must be one of a fixed set of texts, because each is cached. `Row` types the columns. */
export function all<Row>(db: Database, sql: string, ...values: SqlValue[]): Row[] {
  return prepared<Row>(db, sql).all(...values);
}

export function first<Row>(db: Database, sql: string, ...values: SqlValue[]): Row | undefined {
  return prepared<Row>(db, sql).get(...values);
}

/** Values of a one-column query. */
export function readColumn<Value extends SqlValue = string>(
  db: Database,
  sql: string,
  ...values: SqlValue[]
): Value[] {
  return all<Record<string, Value>>(db, sql, ...values).flatMap((row) => Object.values(row));
}

/** Result of a `SELECT count(*)`. */
export function count(db: Database, sql: string, ...values: SqlValue[]): number {
  return Object.values(first<Record<string, number>>(db, sql, ...values) ?? {})[0] ?? 0;
}

/** Converts an optional limit. SQLite reads -1 as "no limit". */
export function sqlLimit(limit: number | undefined): number {
  return limit ?? -1;
}

/** Formats a time as RFC 3339 in UTC; null for null and for a time that no date can hold. */
export function moment(ms: number | null): string | null {
  const date = new Date(ms ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** Returns a copy without the members that are null. */
export function present<Fields extends Record<string, unknown>>(
  fields: Fields,
): { [Name in keyof Fields]?: NonNullable<Fields[Name]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as {
    [Name in keyof Fields]?: NonNullable<Fields[Name]>;
  };
}
