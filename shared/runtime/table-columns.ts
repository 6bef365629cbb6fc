/**
 * Declarations of table columns, from which both the SQL and the type of a row are derived.
 * `text<Dialect>()` narrows what TypeScript sees of a column; SQLite sees TEXT.
 */
export type SqlValue = string | number | Buffer | null;

interface Column<Value extends SqlValue = SqlValue> {
  readonly sql: 'TEXT' | 'INTEGER' | 'BLOB';
  readonly nullable: boolean;
  /** Of the type only: never set. */
  readonly value?: Value;
}
export type Columns = Readonly<Record<string, Column>>;

/** A row of a table with these columns. */
export type RowWith<Of extends Columns> = {
  [Name in keyof Of]: Of[Name] extends Column<infer Value> ? Value : never;
};

export function text<Value extends string = string>(): Column<Value> {
  return { sql: 'TEXT', nullable: false };
}
export function integer(): Column<number> {
  return { sql: 'INTEGER', nullable: false };
}
export function blob(): Column<Buffer> {
  return { sql: 'BLOB', nullable: false };
}
export function orNull<Value extends SqlValue>({ sql }: Column<Value>): Column<Value | null> {
  return { sql, nullable: true };
}

/** Their SQL, where SQLite is to refuse a NULL in what is never NULL. */
export function columnsSql(columns: Columns): string {
  return Object.entries(columns)
    .map(([name, { sql, nullable }]) => `${name} ${sql}${nullable ? '' : ' NOT NULL'}`)
    .join(', ');
}

declare const parsed: unique symbol;
/** JSON text of a `Value`. Plain text is assignable, so that only the reader needs to name the type. */
export type JsonColumn<Value> = string & { readonly [parsed]?: Value };

/** Parses a column that this process or an earlier one wrote. */
export function parseColumn<Value>(json: JsonColumn<Value>): Value {
  return JSON.parse(json);
}
