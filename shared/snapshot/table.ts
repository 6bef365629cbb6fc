/** One table of a snapshot as the fold sees it, and the only code that writes its rows: it keeps the digest up to date with them. */
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

/** One table as the fold reads and changes it. A change returns what a fold does that passes nothing over. */
export interface TableView<Name extends TableName = TableName> {
  get(...key: SqlValue[]): RowOf<Name> | undefined;
  /** The rows whose column has this value; the column must be indexed or first in the key. */
  where(column: keyof RowOf<Name> & string, value: SqlValue): RowOf<Name>[];
  put(row: RowOf<Name>): undefined;
  /** As `put`, for a caller that has read the row with this key: `before` is that row, or undefined where there is none. */
  replace(before: RowOf<Name> | undefined, row: RowOf<Name>): undefined;
  /** Changes some columns of a row that is there. */
  update(row: RowOf<Name>, change: Partial<RowOf<Name>>): undefined;
  remove(row: RowOf<Name>): undefined;
}

export type TableViews = { readonly [Name in TableName]: TableView<Name> };

/** SQLite stores UTF-8, which has no lone surrogates: the digest must be of what can be read back. */
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

/** Called with each row that is written or removed. */
export type RowObserver = (
  table: TableName,
  before: TableRow | undefined,
  after: TableRow | undefined,
) => void;

/** The commit whose events are folded. */
export interface FoldStamp {
  seq: number;
}

/** The rows of one table in the database. Every change passes through `replace` and `remove`, so digest and rows cannot diverge. */
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

  /** Grows with every row that is written or removed. */
  get writes(): number {
    return this.#writes;
  }

  /** The sum if it changed since the last call. */
  takeDirtySum(): bigint | undefined {
    if (!this.#dirty) return undefined;
    this.#dirty = false;
    return this.#sum;
  }

  /** After a rollback: resets the sum in memory to that of the rows. */
  reset(sum: bigint): void {
    this.#sum = sum;
    this.#dirty = false;
  }
}

export type Tables = { readonly [Name in TableName]: Table<Name> };
