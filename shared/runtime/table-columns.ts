/** Declares table columns, from which SQL and row types are derived. `text<Dialect>()` narrows only the type. */
export type SqlValue = string | number | Buffer | null;

interface Column<Value extends SqlValue = SqlValue> {
  readonly sql: 'TEXT' | 'INTEGER' | 'BLOB';
  readonly nullable: boolean;
  /** Carries the column's type. It is never set. */
  readonly value?: Value;
}
export type Columns = Readonly<Record<string, Column>>;

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

/** Returns the SQL that declares the columns. Columns not marked as nullable refuse NULL. */
export function columnsSql(columns: Columns): string {
  return Object.entries(columns)
    .map(([name, { sql, nullable }]) => `${name} ${sql}${nullable ? '' : ' NOT NULL'}`)
    .join(', ');
}

declare const parsed: unique symbol;
/** JSON text of a `Value`. Any string can be assigned to it, so only readers need to state the type. */
export type JsonColumn<Value> = string & { readonly [parsed]?: Value };

/** Parses the JSON in a column that this process or an earlier one wrote. */
export function parseColumn<Value>(json: JsonColumn<Value>): Value {
  return JSON.parse(json);
}
