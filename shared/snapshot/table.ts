/** Reads and writes the rows of one table for the fold. No other code writes rows, so each digest matches its table. */
import type { Database, Statement } from '../runtime/sqlite.ts';
import type { SqlValue } from '../runtime/table-columns.ts';
import {
  addDigest,
  type RowOf,
  rowDigest,
  type TableName,
  type TableRow,
  type TableSpec,
  tableSpecs,
} from './tables.ts';

/** A table as the fold sees it. Methods that write return undefined, which a fold can return to report no skip. */
export interface TableView<Name extends TableName = TableName> {
  get(...key: SqlValue[]): RowOf<Name> | undefined;
  /** Returns the rows with this value in a column, which must be indexed or be the first of the key. */
  where(column: keyof RowOf<Name> & string, value: SqlValue): RowOf<Name>[];
  put(row: RowOf<Name>): undefined;
  /** Like `put`, but saves a read. `before` must be the current row with the same key, or undefined if there is none. */
  replace(before: RowOf<Name> | undefined, row: RowOf<Name>): undefined;
  update(row: RowOf<Name>, change: Partial<RowOf<Name>>): undefined;
  remove(row: RowOf<Name>): undefined;
}

export type TableViews = { readonly [Name in TableName]: TableView<Name> };

/** Replaces lone surrogates, which SQLite cannot store as UTF-8, so that the digest matches the text that SQLite returns. */
export function wellFormed(row: TableRow): TableRow {
  const isKept = Object.values(row).every((value) => typeof value !== 'string' || value.isWellFormed());
  if (isKept) return row;
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [
      column,
      typeof value === 'string' ? value.toWellFormed() : value,
    ]),
  );
}

/** Function that is called for each row that is written or removed. */
export type RowObserver = (
  table: TableName,
  before: TableRow | undefined,
  after: TableRow | undefined,
) => void;

/** Number of the commit that is being folded. Mark columns receive this number. */
export interface FoldStamp {
  seq: number;
}

/** Rows of one table in the database. Every change goes through `replace` or `remove`, which also update the digest. */
export class Table<Name extends TableName = TableName> implements TableView<Name> {
  readonly name: Name;
  readonly #db: Database;
  readonly #stamp: FoldStamp;
  readonly #columns: readonly string[];
  readonly #marks: readonly (readonly [mark: string, columns: readonly string[]])[];
  readonly #key: readonly string[];
  readonly #tombstone: Statement | undefined;
  readonly #get: Statement<unknown[], RowOf<Name>>;
  readonly #put: Statement;
  readonly #remove: Statement;
  readonly #byColumn = new Map<string, Statement<unknown[], RowOf<Name>>>();
  readonly #observer: RowObserver | undefined;
  #sum: bigint;
  #dirty = false;
  #writes = 0;

  constructor(db: Database, name: Name, sum: bigint, stamp: FoldStamp, observer?: RowObserver) {
    const spec: TableSpec = tableSpecs[name];
    this.name = name;
    this.#db = db;
    this.#observer = observer;
    this.#sum = sum;
    this.#stamp = stamp;
    this.#columns = Object.keys(spec.columns);
    this.#marks = Object.entries(spec.marks ?? {});
    this.#tombstone =
      spec.marks && db.prepare('INSERT OR REPLACE INTO removed (kind, id, seq) VALUES (?, ?, ?)');
    this.#key = spec.key;
    const where = spec.key.map((column) => `${column} = ?`).join(' AND ');
    this.#get = db.prepare<unknown[], RowOf<Name>>(`SELECT * FROM ${name} WHERE ${where}`);
    this.#put = db.prepare(
      `INSERT OR REPLACE INTO ${name} VALUES (${[...this.#columns, ...this.#marks].map(() => '?').join(', ')})`,
    );
    this.#remove = db.prepare(`DELETE FROM ${name} WHERE ${where}`);
  }

  get(...key: SqlValue[]): RowOf<Name> | undefined {
    return this.#get.get(key);
  }

  where(column: keyof RowOf<Name> & string, value: SqlValue): RowOf<Name>[] {
    let statement = this.#byColumn.get(column);
    if (!statement) {
      statement = this.#db.prepare<unknown[], RowOf<Name>>(`SELECT * FROM ${this.name} WHERE ${column} = ?`);
      this.#byColumn.set(column, statement);
    }
    return statement.all(value);
  }

  put(row: RowOf<Name>): undefined {
    const key = this.#key.map((column) => row[column as keyof RowOf<Name>]);
    this.replace(this.get(...key), row);
  }

  replace(before: RowOf<Name> | undefined, row: RowOf<Name>): undefined {
    const values = wellFormed(row as TableRow);
    if (before) this.#sum = addDigest(this.#sum, -rowDigest(this.name, before));
    this.#put.run([
      ...this.#columns.map((column) => values[column] ?? null),
      ...this.#marks.map(([mark, columns]) => this.#positionOf(mark, columns, before, values)),
    ]);
    this.#sum = addDigest(this.#sum, rowDigest(this.name, values));
    this.#dirty = true;
    this.#writes++;
    this.#observer?.(this.name, before as TableRow | undefined, values);
  }

  #positionOf(
    mark: string,
    columns: readonly string[],
    before: TableRow | undefined,
    after: TableRow,
  ): SqlValue {
    const moves =
      before === undefined ||
      columns.length === 0 ||
      columns.some((column) => (before[column] ?? null) !== (after[column] ?? null));
    return moves ? this.#stamp.seq : (before[mark] ?? null);
  }

  update(row: RowOf<Name>, change: Partial<RowOf<Name>>): undefined {
    this.replace(row, { ...row, ...change });
  }

  remove(row: RowOf<Name>): undefined {
    const values = row as TableRow;
    const done = this.#remove.run(this.#key.map((column) => values[column] ?? null));
    if (done.changes === 0) return;
    this.#sum = addDigest(this.#sum, -rowDigest(this.name, values));
    this.#dirty = true;
    this.#writes++;
    this.#observer?.(this.name, values, undefined);
    this.#tombstone?.run(this.name, this.#key.map((column) => values[column]).join('/'), this.#stamp.seq);
  }

  get sum(): bigint {
    return this.#sum;
  }

  /** Number of rows written or removed since the table was opened. */
  get writes(): number {
    return this.#writes;
  }

  /** Returns the table's digest if it has changed since the last call, and undefined otherwise. */
  takeDirtySum(): bigint | undefined {
    if (!this.#dirty) return undefined;
    this.#dirty = false;
    return this.#sum;
  }

  /** Resets the table's digest in memory after a rollback. */
  reset(sum: bigint): void {
    this.#sum = sum;
    this.#dirty = false;
  }
}

export type Tables = { readonly [Name in TableName]: Table<Name> };
