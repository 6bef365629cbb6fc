/**
 * The tables of a snapshot, and the only code that writes them.
 * Every write keeps its table's digest up to date: the sum mod 2^128 of a hash of each canonical row (design: Digest).
 * Rows are logical, so neither the SQLite version nor the order of pages matters.
 */

import * as nodeCrypto from 'node:crypto';
import { createHash } from 'node:crypto';
import type { Database, Statement } from '../runtime/sqlite.ts';

export type Value = string | number | Buffer | null;
export type Row = Record<string, Value>;

export interface TableSpec {
  /** Column name → declaration. The order is the canonical order of the digest. */
  readonly columns: Readonly<Record<string, string>>;
  readonly key: readonly string[];
  readonly indexes?: readonly (readonly string[])[];
}

/** Times are milliseconds since 1970 in UTC, flags 0 or 1, lists JSON texts. */
export const tableSpecs = {
  tier: {
    columns: {
      id: 'TEXT', // a tier's name, or `anonymous` for visitors
      rank: 'INTEGER', // order, lowest first; NULL for anonymous
      requests_per_minute: 'INTEGER', // NULL: unlimited, here and below
      concurrency: 'INTEGER',
      context_tokens: 'INTEGER',
      monthly_tokens: 'INTEGER',
      free_turns: 'INTEGER', // anonymous only
    },
    key: ['id'],
  },
  tier_model: { columns: { tier: 'TEXT', model: 'TEXT' /* or * */ }, key: ['tier', 'model'] },
  model: {
    columns: { id: 'TEXT', family: 'TEXT', added: 'INTEGER', weight: 'INTEGER' },
    key: ['id'],
  },
  organisation: {
    columns: {
      id: 'TEXT',
      name: 'TEXT',
      tier: 'TEXT',
      anchor: 'TEXT' /* YYYY-MM-DD */,
      suspended: 'INTEGER',
    },
    key: ['id'],
  },
  member: {
    columns: { organisation: 'TEXT', person: 'TEXT', role: 'TEXT' },
    key: ['organisation', 'person'],
  },
  api_key: {
    columns: {
      id: 'TEXT',
      hash: 'BLOB', // SHA-256 of the key's text; NULL where only the revocation is known
      organisation: 'TEXT',
      name: 'TEXT',
      expires: 'TEXT', // never | 30d | 90d | 1y
      expires_at: 'INTEGER', // NULL: never
      created_at: 'INTEGER',
      created_by: 'TEXT',
      revoked_at: 'INTEGER', // NULL: not revoked
      revoked_by: 'TEXT',
    },
    key: ['id'],
    indexes: [['hash'], ['organisation']],
  },
  stack: {
    columns: { id: 'TEXT', organisation: 'TEXT', surface: 'TEXT', created_at: 'INTEGER' },
    key: ['id'],
    indexes: [['organisation']],
  },
  stack_model: { columns: { stack: 'TEXT', model: 'TEXT' }, key: ['stack', 'model'] },
  pool_model: { columns: { model: 'TEXT' }, key: ['model'] },
  node: {
    columns: {
      id: 'TEXT',
      place: 'TEXT', // pool | stack:<id> | organisation:<id>
      url: 'TEXT',
      dialect: 'TEXT',
      credential: 'TEXT', // name only
      models: 'TEXT', // JSON: catalog id → served name, where they differ
      agent: 'INTEGER',
      drained: 'INTEGER',
      owner: 'TEXT', // control-plane replica that reports on it
      generation: 'INTEGER', // counts the claims
      up: 'INTEGER',
      loaded: 'TEXT', // JSON: names the engine reports
      windows: 'TEXT', // JSON: context window by engine's name, tokens
      image_models: 'TEXT', // JSON: names the engine reports of models that take images
      reason: 'TEXT',
      changed_at: 'INTEGER', // of the last change of health
    },
    key: ['id'],
    indexes: [['place']],
  },
  node_token: {
    columns: { id: 'TEXT', node: 'TEXT', hash: 'BLOB', created_at: 'INTEGER', revoked_at: 'INTEGER' },
    key: ['id'],
    indexes: [['hash'], ['node']],
  },
  usage_adjustment: {
    columns: { organisation: 'TEXT', period: 'TEXT' /* first day */, tokens: 'INTEGER' },
    key: ['organisation', 'period'],
  },
  /** Derived: who serves a model for a place now, with all that a request needs to know of the node. */
  routes: {
    columns: {
      place: 'TEXT',
      model: 'TEXT',
      node: 'TEXT',
      served: 'TEXT', // the engine's name for the model
      url: 'TEXT',
      dialect: 'TEXT',
      credential: 'TEXT',
      window_tokens: 'INTEGER', // NULL: not told
      takes_images: 'INTEGER', // 0: not known to
    },
    key: ['place', 'model', 'node'],
    indexes: [['node']],
  },
} as const satisfies Record<string, TableSpec>;

export type TableName = keyof typeof tableSpecs;
export const tableNames = Object.keys(tableSpecs) as TableName[];
export type RowOf<Name extends TableName> = { [Column in keyof (typeof tableSpecs)[Name]['columns']]: Value };

export function indexName(table: TableName, index: readonly string[]): string {
  return `${table}_by_${index.join('_')}`;
}

/** SQL that makes the tables; WITHOUT ROWID keeps a look-up by key one descent of one tree. */
export function schemaSql(): string {
  return tableNames
    .map((name) => {
      const spec: TableSpec = tableSpecs[name];
      const columns = Object.entries(spec.columns).map(([column, type]) => `${column} ${type}`);
      const indexes = (spec.indexes ?? []).map(
        (index) => `CREATE INDEX ${indexName(name, index)} ON ${name} (${index.join(', ')});`,
      );
      return `CREATE TABLE ${name} (${columns.join(', ')}, PRIMARY KEY (${spec.key.join(', ')})) STRICT, WITHOUT ROWID;\n${indexes.join('\n')}`;
    })
    .join('\n');
}

const sum128 = (1n << 128n) - 1n;

const sha256Hex: (text: string) => string =
  typeof nodeCrypto.hash === 'function'
    ? (text) => nodeCrypto.hash('sha256', text, 'hex')
    : (text) => createHash('sha256').update(text).digest('hex');

/** The hash of one canonical row, as a number below 2^128. */
export function rowDigest(table: TableName, row: Row): bigint {
  const values: unknown[] = [table];
  for (const column in tableSpecs[table].columns) {
    const value = row[column];
    values.push(Buffer.isBuffer(value) ? value.toString('hex') : (value ?? null));
  }
  return BigInt(`0x${sha256Hex(JSON.stringify(values)).slice(0, 32)}`);
}

export function addDigest(sum: bigint, row: bigint): bigint {
  return (sum + row) & sum128;
}

/** SQLite holds UTF-8, which has no half surrogates: the digest must be of what can be read back. */
function wellFormed(row: Row): Row {
  const isKept = Object.values(row).every((value) => typeof value !== 'string' || value.isWellFormed());
  if (isKept) return row;
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [
      column,
      typeof value === 'string' ? value.toWellFormed() : value,
    ]),
  );
}

/** One table's writer. Every change passes through `put` and `remove`, so digest and rows cannot part. */
export class Table<Name extends TableName = TableName> {
  readonly name: Name;
  readonly #db: Database;
  readonly #columns: readonly string[];
  readonly #key: readonly string[];
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #remove: Statement;
  readonly #byColumn = new Map<string, Statement>();
  #sum: bigint;
  #dirty = false;

  constructor(db: Database, name: Name, sum: bigint) {
    const spec: TableSpec = tableSpecs[name];
    this.name = name;
    this.#db = db;
    this.#sum = sum;
    this.#columns = Object.keys(spec.columns);
    this.#key = spec.key;
    const where = spec.key.map((column) => `${column} = ?`).join(' AND ');
    this.#get = db.prepare(`SELECT * FROM ${name} WHERE ${where}`);
    this.#put = db.prepare(
      `INSERT OR REPLACE INTO ${name} VALUES (${this.#columns.map(() => '?').join(', ')})`,
    );
    this.#remove = db.prepare(`DELETE FROM ${name} WHERE ${where}`);
  }

  get(...key: Value[]): RowOf<Name> | undefined {
    return this.#get.get(key) as RowOf<Name> | undefined;
  }

  /** The rows whose column has this value; the column must be indexed or first in the key. */
  where(column: keyof RowOf<Name> & string, value: Value): RowOf<Name>[] {
    let statement = this.#byColumn.get(column);
    if (!statement) {
      statement = this.#db.prepare(`SELECT * FROM ${this.name} WHERE ${column} = ?`);
      this.#byColumn.set(column, statement);
    }
    return statement.all(value) as RowOf<Name>[];
  }

  put(row: RowOf<Name>): void {
    const key = this.#key.map((column) => row[column as keyof RowOf<Name>]);
    this.replace(this.get(...key), row);
  }

  /** As `put`, for who has read the row with this key: `before` as it stands, or undefined where there is none. */
  replace(before: RowOf<Name> | undefined, row: RowOf<Name>): void {
    const values = wellFormed(row as Row);
    if (before) this.#sum = (this.#sum - rowDigest(this.name, before)) & sum128;
    this.#put.run(this.#columns.map((column) => values[column] ?? null));
    this.#sum = addDigest(this.#sum, rowDigest(this.name, values));
    this.#dirty = true;
  }

  /** Changes some columns of a row that is there. */
  update(row: RowOf<Name>, change: Partial<RowOf<Name>>): void {
    this.replace(row, { ...row, ...change });
  }

  remove(row: RowOf<Name>): void {
    const values = row as Row;
    const done = this.#remove.run(this.#key.map((column) => values[column] ?? null));
    if (done.changes === 0) return;
    this.#sum = (this.#sum - rowDigest(this.name, values)) & sum128;
    this.#dirty = true;
  }

  get sum(): bigint {
    return this.#sum;
  }

  /** The sum if it changed since the last call. */
  takeDirtySum(): bigint | undefined {
    if (!this.#dirty) return undefined;
    this.#dirty = false;
    return this.#sum;
  }

  /** After a rollback: what is in memory goes back with the rows. */
  reset(sum: bigint): void {
    this.#sum = sum;
    this.#dirty = false;
  }
}

export type Tables = { readonly [Name in TableName]: Table<Name> };
