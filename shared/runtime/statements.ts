/** Runs read-only queries on a snapshot's database. Each statement is prepared once per database and discarded with it. */
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

/** Returns all rows of a query. `sql` must be from a fixed set of texts, because each is cached. `Row` is the rows' type. */
export function all<Row>(db: Database, sql: string, ...values: SqlValue[]): Row[] {
  return prepared<Row>(db, sql).all(...values);
}

export function first<Row>(db: Database, sql: string, ...values: SqlValue[]): Row | undefined {
  return prepared<Row>(db, sql).get(...values);
}

/** Returns the values of a query with one column. */
export function readColumn<Value extends SqlValue = string>(
  db: Database,
  sql: string,
  ...values: SqlValue[]
): Value[] {
  return all<Record<string, Value>>(db, sql, ...values).flatMap((row) => Object.values(row));
}

export function count(db: Database, sql: string, ...values: SqlValue[]): number {
  return Object.values(first<Record<string, number>>(db, sql, ...values) ?? {})[0] ?? 0;
}

/** Converts an optional limit for SQL. SQLite treats -1 as unlimited. */
export function sqlLimit(limit: number | undefined): number {
  return limit ?? -1;
}

/** Formats a time as RFC 3339 in UTC. Returns null if the time is null or not a possible date. */
export function moment(ms: number | null): string | null {
  const date = new Date(ms ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** Returns a copy of the object without members that are null. */
export function present<Fields extends Record<string, unknown>>(
  fields: Fields,
): { [Name in keyof Fields]?: NonNullable<Fields[Name]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as {
    [Name in keyof Fields]?: NonNullable<Fields[Name]>;
  };
}
