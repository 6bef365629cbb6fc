/** Finds the rows that differ between two positions, and computes the digests of the state at any position. */
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import {
  addDigest,
  hex128,
  rowDigest,
  type TableName,
  type TableRow,
  tableNames,
  tableSpecs,
} from '../../shared/snapshot/tables.ts';

export interface RowAtTwo {
  readonly table: TableName;
  readonly key: readonly SqlValue[];
  readonly before: TableRow | undefined;
  readonly after: TableRow | undefined;
}

export function keyOfRow(table: TableName, row: TableRow): SqlValue[] {
  return tableSpecs[table].key.map((column) => row[column] ?? null);
}

type Digests = Readonly<Record<TableName, string>>;

type ChangedStatement = Statement<
  [number, number, number],
  { readonly tbl: TableName; readonly key: string }
>;
type SpanStatement = Statement<[number], { readonly seq: number; readonly digests: string }>;

/** Reads versions of rows through prepared statements of one database connection. */
export class VersionReader {
  readonly #versions: Readonly<Record<TableName, Statement<SqlValue[], TableRow>>>;
  readonly #changed: ChangedStatement;
  readonly #span: SpanStatement;

  constructor(db: Database) {
    this.#versions = Object.fromEntries(
      tableNames.map((name) => {
        const where = tableSpecs[name].key.map((column) => `${column} = ?`).join(' AND ');
        const sql = `SELECT * FROM past_${name} WHERE ${where} AND set_seq <= ? ORDER BY set_seq DESC LIMIT 1`;
        return [name, db.prepare(sql)];
      }),
    ) as Record<TableName, Statement<SqlValue[], TableRow>>;
    this.#changed = db.prepare(
      'SELECT DISTINCT tbl, key FROM row_change WHERE seq > ? AND seq <= ? LIMIT ?',
    ) as ChangedStatement;
    this.#span = db.prepare(
      'SELECT seq, digests FROM span WHERE seq <= ? ORDER BY seq DESC LIMIT 1',
    ) as SpanStatement;
  }

  #rowAt(table: TableName, key: readonly SqlValue[], seq: number): TableRow | undefined {
    const version = this.#versions[table].get(...key, seq);
    if (version === undefined) return undefined;
    const { set_seq: _set, end_seq: endSeq, ...row } = version;
    return Number(endSeq) > seq ? row : undefined;
  }

  /** Returns up to `max` rows that changed after position `from`, up to and including position `to`. */
  between(from: number, to: number, max: number): RowAtTwo[] {
    return this.#changed.all(from, to, max).map(({ tbl, key: text }) => {
      const key = JSON.parse(text) as SqlValue[];
      return { table: tbl, key, before: this.#rowAt(tbl, key, from), after: this.#rowAt(tbl, key, to) };
    });
  }

  /** Computes the digests of the state after commit `seq`, from the last stored digests before it and the changes since. */
  digestsAt(seq: number): Digests {
    const span = this.#span.get(seq);
    if (span === undefined) throw new Error('the history has no spans');
    const digests = JSON.parse(span.digests) as Digests;
    const sums = Object.fromEntries(tableNames.map((name) => [name, BigInt(`0x${digests[name]}`)])) as Record<
      TableName,
      bigint
    >;
    for (const { table, before, after } of this.between(span.seq, seq, -1)) {
      if (before) sums[table] = addDigest(sums[table], -rowDigest(table, before));
      if (after) sums[table] = addDigest(sums[table], rowDigest(table, after));
    }
    return Object.fromEntries(tableNames.map((name) => [name, hex128(sums[name])])) as Digests;
  }
}
