/**
 * Recomputes a snapshot's digests from its rows. It names the tables that differ from their digest, and those with a row
 * missing from an index, because look-ups rely on indexes. Each step reads a bounded number of rows, since the process serves
 * meanwhile. A table that the fold changes during the check is read again.
 */
import { atOnce, inSlices } from '../runtime/slices.ts';
import type { Database } from '../runtime/sqlite.ts';
import { PositionStore } from './position.ts';
import {
  addDigest,
  indexName,
  rowDigest,
  type TableName,
  type TableRow,
  type TableSpec,
  tableNames,
  tableSpecs,
} from './tables.ts';

export interface Verification {
  /** Tables whose rows do not match their digest or are missing from an index. Empty if everything matches. */
  readonly differing: readonly TableName[];
  readonly rows: number;
}

/** Name of an extra column that counts the indexes containing a row. */
const indexCountColumn = '_indexed';

function selectWithIndexes(table: TableName, indexes: readonly (readonly string[])[]): string {
  const key = tableSpecs[table].key;
  const found = indexes.map((index) => {
    const same = [...new Set([...index, ...key])].map((column) => `i.${column} IS t.${column}`);
    return `(SELECT count(*) FROM ${table} i INDEXED BY ${indexName(table, index)} WHERE ${same.join(' AND ')})`;
  });
  return `SELECT t.*, ${found.join(' + ') || '0'} AS ${indexCountColumn} FROM ${table} t`;
}

/** Recomputes the digest of one table, yielding after each slice. `isIndexed` is false if a row is missing from an index. */
function* recomputeTable(
  db: Database,
  table: TableName,
  rowsPerSlice: number,
): Generator<void, { sum: bigint; rows: number; isIndexed: boolean }> {
  const spec: TableSpec = tableSpecs[table];
  const { key, indexes = [] } = spec;
  const order = key.map((column) => `t.${column}`).join(', ');
  const select = selectWithIndexes(table, indexes);
  const first = db.prepare<unknown[], TableRow>(`${select} ORDER BY ${order} LIMIT ?`);
  const places = key.map(() => '?').join(', ');
  const next = db.prepare<unknown[], TableRow>(
    `${select} WHERE (${order}) > (${places}) ORDER BY ${order} LIMIT ?`,
  );
  let sum = 0n;
  let rows = 0;
  let isIndexed = true;
  let page = first.all(rowsPerSlice);
  for (;;) {
    const last = page.at(-1);
    if (last === undefined) break;
    for (const row of page) {
      sum = addDigest(sum, rowDigest(table, row));
      isIndexed &&= row[indexCountColumn] === indexes.length;
    }
    rows += page.length;
    yield;
    page = page.length < rowsPerSlice ? [] : next.all(...key.map((column) => last[column]), rowsPerSlice);
  }
  return { sum, rows, isIndexed };
}

/** Checks one table in steps. Its rows must not change meanwhile. Throws `DatabaseCorrupt` for a damaged position. */
export function* verifyTable(
  db: Database,
  table: TableName,
  rowsPerSlice: number,
): Generator<void, { readonly rows: number; readonly isWhole: boolean }> {
  const positions = new PositionStore(db);
  // This read throws if the position does not match its checksum. Its result is not needed.
  positions.read();
  const stored = positions.sums()[table] ?? 0n;
  const { sum, rows, isIndexed } = yield* recomputeTable(db, table, rowsPerSlice);
  return { rows, isWhole: isIndexed && sum === stored };
}

/** Checks all tables in steps of at most `rowsPerSlice` rows. Throws the driver's error if a page is damaged. */
export function* verifySteps(db: Database, rowsPerSlice = 1000): Generator<void, Verification> {
  const positions = new PositionStore(db);
  const differing: TableName[] = [];
  let rows = 0;
  const state = (table: TableName) => ({ seq: positions.read().seq, sum: positions.sums()[table] ?? 0n });
  for (const table of tableNames) {
    let readings = 0;
    for (;;) {
      const before = state(table);
      const computed = yield* recomputeTable(db, table, rowsPerSlice);
      const after = state(table);
      const isWhole = computed.isIndexed && computed.sum === after.sum;
      // Equal sums can hide rows that the fold changed and changed back, but hardly during each of three readings.
      const mayHaveMoved = after.sum !== before.sum || (after.seq !== before.seq && ++readings < 3);
      if (!isWhole && mayHaveMoved) continue;
      rows += computed.rows;
      if (!isWhole) differing.push(table);
      break;
    }
  }
  return { differing, rows };
}

/** Checks all tables in one turn of the event loop. */
export function verify(db: Database): Verification {
  return atOnce(verifySteps(db, 10_000));
}

const rowsPerStep = 50;
const turnMsMax = 5;

/** Returns the tables that fail the check. Yields between steps, because a gateway serves requests while it rebuilds. */
export async function verifyInTurns(db: Database): Promise<readonly TableName[]> {
  return (await inSlices(verifySteps(db, rowsPerStep), turnMsMax)).differing;
}
