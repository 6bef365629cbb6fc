/**
 * Recomputes a snapshot's digests from its rows, in slices, and names the tables where they differ.
 * Runs beside serving: each step reads a bounded number of rows, and a fold in between is followed by starting the
 * table again, because the sum of a moving table would mean nothing.
 */
import type { Database } from '../sqlite.ts';
import { PositionStore } from './position.ts';
import { addDigest, type Row, rowDigest, type TableName, tableNames, tableSpecs } from './tables.ts';

export interface Verdict {
  /** Tables whose rows do not add up to their digest; empty where all do. */
  readonly differing: readonly TableName[];
  readonly rows: number;
}

/** Recomputes one table; yields after each slice. */
function* sumOf(
  db: Database,
  table: TableName,
  rowsPerSlice: number,
): Generator<void, { sum: bigint; rows: number }> {
  const key = tableSpecs[table].key;
  const order = key.join(', ');
  const first = db.prepare(`SELECT * FROM ${table} ORDER BY ${order} LIMIT ?`);
  const places = key.map(() => '?').join(', ');
  const next = db.prepare(`SELECT * FROM ${table} WHERE (${order}) > (${places}) ORDER BY ${order} LIMIT ?`);
  let sum = 0n;
  let rows = 0;
  let page = first.all(rowsPerSlice) as Row[];
  while (page.length > 0) {
    for (const row of page) sum = addDigest(sum, rowDigest(table, row));
    rows += page.length;
    yield;
    const last = page.at(-1) as Row;
    page =
      page.length < rowsPerSlice
        ? []
        : (next.all(...key.map((column) => last[column]), rowsPerSlice) as Row[]);
  }
  return { sum, rows };
}

/** Steps through all tables; each `next()` reads at most `rowsPerSlice` rows. Throws DatabaseCorrupt-like driver errors on damaged pages. */
export function* verifySteps(db: Database, rowsPerSlice = 1000): Generator<void, Verdict> {
  const positions = new PositionStore(db);
  const differing: TableName[] = [];
  let rows = 0;
  for (const table of tableNames) {
    for (;;) {
      const before = positions.read().seq;
      const computed = yield* sumOf(db, table, rowsPerSlice);
      if (positions.read().seq !== before) continue;
      rows += computed.rows;
      if (computed.sum !== (positions.sums()[table] ?? 0n)) differing.push(table);
      break;
    }
  }
  return { differing, rows };
}

/** Recomputes everything at once. */
export function verify(db: Database): Verdict {
  const steps = verifySteps(db, 10_000);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
