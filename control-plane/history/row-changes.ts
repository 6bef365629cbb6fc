/** Which rows differ between two positions, and the digests of a position. */
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
import { addChange } from './commit-chain.ts';

interface RowAtTwo {
  readonly table: TableName;
  readonly key: readonly SqlValue[];
  readonly before: TableRow | undefined;
  readonly after: TableRow | undefined;
}

type Digests = Readonly<Record<TableName, string>>;

type ChangedStatement = Statement<
  [number, number, number],
  { readonly tbl: TableName; readonly key: string }
>;
type SpanStatement = Statement<[number], { readonly seq: number; readonly digests: string }>;

interface Version {
  readonly row: TableRow | undefined;
  readonly endSeq: number;
}

/** Reads versions; its statements are those of one connection. */
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

  rowAt(table: TableName, key: readonly SqlValue[], seq: number): TableRow | undefined {
    const { row, endSeq } = this.#versionAt(table, key, seq);
    return endSeq > seq ? row : undefined;
  }

  #versionAt(table: TableName, key: readonly SqlValue[], seq: number): Version {
    const version = this.#versions[table].get(...key, seq);
    if (version === undefined) return { row: undefined, endSeq: 0 };
    const { set_seq: _set, end_seq: endSeq, ...row } = version;
    return { row, endSeq: Number(endSeq) };
  }

  /** The sum of what one commit changed; undefined where a version did not end when it was replaced. */
  changesAt(seq: number): bigint | undefined {
    let sum = 0n;
    for (const { tbl, key: text } of this.#changed.all(seq - 1, seq, -1)) {
      const key = JSON.parse(text) as SqlValue[];
      const before = this.#versionAt(tbl, key, seq - 1);
      if (before.endSeq > seq) return undefined;
      sum = addChange(sum, tbl, text, this.rowAt(tbl, key, seq));
    }
    return sum;
  }

  /** Rows that changed after `from` up to `to`; at most `max`. */
  between(from: number, to: number, max: number): RowAtTwo[] {
    return this.#changed.all(from, to, max).map(({ tbl, key: text }) => {
      const key = JSON.parse(text) as SqlValue[];
      return { table: tbl, key, before: this.rowAt(tbl, key, from), after: this.rowAt(tbl, key, to) };
    });
  }

  /** Digests of the state after commit `seq`: those of the last span, and what changed since. */
  digestsAt(seq: number): Digests {
    const span = this.#span.get(seq);
    if (span === undefined) throw new Error('the history has no spans');
    return this.advance(JSON.parse(span.digests) as Digests, span.seq, seq);
  }

  /** The digests at `to`, from those at `from`. */
  advance(digests: Digests, from: number, to: number): Digests {
    const sums = Object.fromEntries(tableNames.map((name) => [name, BigInt(`0x${digests[name]}`)])) as Record<
      TableName,
      bigint
    >;
    for (const { table, before, after } of this.between(from, to, -1)) {
      if (before) sums[table] = addDigest(sums[table], -rowDigest(table, before));
      if (after) sums[table] = addDigest(sums[table], rowDigest(table, after));
    }
    return Object.fromEntries(tableNames.map((name) => [name, hex128(sums[name])])) as Digests;
  }
}
