/**
 * The tables of a snapshot, and their digests: the sum mod 2^128 of a hash of each canonical row (design: Digest).
 * Rows are logical, so neither the SQLite version nor the order of pages matters.
 */

import * as nodeCrypto from 'node:crypto';
import { createHash } from 'node:crypto';
import type { ChangeWatch, Wave } from '../../schemas/events/changes.ts';
import type { StoredEvent } from '../../schemas/events/events.ts';
import type {
  Dialect,
  ExpiryChoice,
  KeyId,
  NodeId,
  OrganisationId,
  PlaceKey,
  Role,
  StackId,
  Surface,
} from '../../schemas/names.ts';
import {
  blob,
  type Columns,
  integer,
  type JsonColumn,
  orNull,
  type RowWith,
  type SqlValue,
  text,
} from '../runtime/table-columns.ts';

export type TableRow = Record<string, SqlValue>;

export interface TableSpec {
  /** The order is the canonical order of the digest. */
  readonly columns: Columns;
  readonly key: readonly string[];
  readonly indexes?: readonly (readonly string[])[];
  /**
   * Positions of the commits that last set the row, for explanations; not part of the digest. Each names the columns whose
   * change moves it; without columns every write does. A table with marks also keeps what was removed from it.
   */
  readonly marks?: Readonly<Record<string, readonly string[]>>;
}

/** The mark of every write. */
const anyWrite = { set_at: [] } as const;

/**
 * Times are milliseconds since 1970 in UTC, flags 0 or 1. What is never NULL is so by the fold: SQLite is not asked to
 * enforce it, because the fold must not fail.
 */
export const tableSpecs = {
  tier: {
    columns: {
      id: text(), // a tier's name, or `anonymous` for visitors
      rank: orNull(integer()), // order, lowest first; NULL for anonymous
      requests_per_minute: orNull(integer()), // NULL: unlimited, here and below
      concurrency: orNull(integer()),
      context_tokens: orNull(integer()),
      monthly_tokens: orNull(integer()),
      free_turns: orNull(integer()), // anonymous only, as all below
      network_factor: orNull(integer()),
      total_requests_per_minute: orNull(integer()), // of all visitors together
      total_concurrency: orNull(integer()),
      total_tokens_per_day: orNull(integer()),
    },
    key: ['id'],
    marks: anyWrite,
  },
  tier_model: { columns: { tier: text(), model: text() /* or * */ }, key: ['tier', 'model'] },
  model: {
    columns: {
      id: text(),
      family: text(),
      added: integer(),
      weight: integer(),
      affinity: text<'prefix' | 'none'>(),
    },
    key: ['id'],
    marks: anyWrite,
  },
  organisation: {
    columns: {
      id: text<OrganisationId>(),
      name: text(),
      tier: orNull(text()),
      anchor: text(), // YYYY-MM-DD
      suspended: integer(),
    },
    key: ['id'],
    marks: { ...anyWrite, tier_set_at: ['tier'], suspended_set_at: ['suspended'] },
  },
  member: {
    columns: { organisation: text<OrganisationId>(), person: text(), role: text<Role>() },
    key: ['organisation', 'person'],
  },
  api_key: {
    columns: {
      id: text<KeyId>(),
      // The first four are NULL, as are creation and expiry, where only the revocation is known.
      hash: orNull(blob()), // SHA-256 of the key's text
      organisation: orNull(text<OrganisationId>()),
      name: orNull(text()),
      expires: orNull(text<ExpiryChoice>()),
      expires_at: orNull(integer()), // NULL: never
      created_at: orNull(integer()),
      created_by: orNull(text()),
      revoked_at: orNull(integer()), // NULL: not revoked
      revoked_by: orNull(text()),
    },
    key: ['id'],
    indexes: [['hash'], ['organisation']],
    marks: anyWrite,
  },
  stack: {
    columns: {
      id: text<StackId>(),
      organisation: text<OrganisationId>(),
      surface: text<Surface>(),
      created_at: integer(),
    },
    key: ['id'],
    indexes: [['organisation']],
    marks: { ...anyWrite, surface_set_at: ['surface'] },
  },
  stack_model: {
    columns: { stack: text<StackId>(), model: text() },
    key: ['stack', 'model'],
    marks: anyWrite,
  },
  pool_model: { columns: { model: text() }, key: ['model'], marks: anyWrite },
  node: {
    columns: {
      id: text<NodeId>(),
      place: text<PlaceKey>(),
      url: text(),
      dialect: text<Dialect>(),
      credential: orNull(text()), // name only
      models: orNull(text<JsonColumn<ServedNames>>()), // catalog id → served name, where they differ
      agent: integer(),
      drained: integer(),
      owner: orNull(text()), // control-plane replica that reports on it
      generation: integer(), // counts the claims
      up: integer(),
      loaded: text<JsonColumn<readonly string[]>>(), // names the engine reports
      windows: text<JsonColumn<Readonly<Record<string, number>>>>(), // context window by engine's name, tokens
      image_models: text<JsonColumn<readonly string[]>>(), // names the engine reports of models that take images
      rerank_models: text<JsonColumn<readonly string[]>>(), // of models that rerank and do nothing else
      reason: orNull(text()),
      changed_at: orNull(integer()), // of the last change of health; NULL before the first report
    },
    key: ['id'],
    indexes: [['place']],
    marks: { ...anyWrite, drained_set_at: ['drained'], up_set_at: ['up'], loaded_set_at: ['loaded'] },
  },
  node_token: {
    columns: {
      id: text(),
      node: text<NodeId>(),
      hash: blob(),
      created_at: integer(),
      revoked_at: orNull(integer()),
    },
    key: ['id'],
    indexes: [['hash'], ['node']],
  },
  usage_adjustment: {
    columns: { organisation: text<OrganisationId>(), period: text() /* first day */, tokens: integer() },
    key: ['organisation', 'period'],
  },
  /** One row: what members may do, where the fleet says it. */
  bounds: {
    columns: {
      id: text(), // always `fleet`
      active_keys_per_organisation: orNull(integer()), // NULL: the default of the control plane, here and below
      keys_per_organisation: orNull(integer()),
      commands_per_person_per_minute: orNull(integer()),
      commands_per_organisation_per_minute: orNull(integer()),
    },
    key: ['id'],
  },
  /** The change that is released in waves now: one row at most. */
  change: {
    columns: {
      slot: text<'open'>(),
      id: text(),
      events: text<JsonColumn<readonly StoredEvent[]>>(), // of known types, as the log has them
      waves: text<JsonColumn<readonly Wave[]>>(),
      wave: integer(), // gateways of so many waves are in it; 0: none yet
      wave_at: integer(), // when the last of these began
      hold_seconds: integer(),
      watch: text<JsonColumn<ChangeWatch>>(),
      advance_unseen: integer(),
      at: integer(),
      by: text(),
      passed_over: integer(), // events that the rows of today make impossible
      passed_over_reason: orNull(text()), // of the first of them
    },
    key: ['slot'],
    marks: { ...anyWrite, staged_at: ['id'], advanced_at: ['id', 'wave'] },
  },
  /** The last changes that are over. */
  closed_change: {
    columns: {
      id: text(),
      state: text<'completed' | 'withdrawn'>(),
      waves: text<JsonColumn<readonly Wave[]>>(),
      wave: integer(),
      hold_seconds: integer(),
      watch: text<JsonColumn<ChangeWatch>>(),
      at: integer(),
      by: text(),
      closed_at: integer(),
      closed_by: text(),
      reason: orNull(text()), // of a withdrawal
    },
    key: ['id'],
    indexes: [['state']],
    marks: anyWrite,
  },
  /** Derived: what rows of definitions are on the gateways of its wave, where they differ. See overlay.ts. */
  overlay: {
    columns: {
      tbl: text(),
      key: text(), // with / between its columns
      row: orNull(text<JsonColumn<TableRow>>()), // NULL: there is none
    },
    key: ['tbl', 'key'],
  },
  /** Derived: who serves a model for a place now, with all that a request needs to know of the node. */
  routes: {
    columns: {
      place: text<PlaceKey>(),
      model: text(),
      node: text<NodeId>(),
      served: text(), // the engine's name for the model
      url: text(),
      dialect: text<Dialect>(),
      credential: orNull(text()),
      window_tokens: orNull(integer()), // NULL: not reported
      takes_images: integer(), // 0: not known to
      reranks: integer(), // 1: known to, and does nothing else
    },
    key: ['place', 'model', 'node'],
    indexes: [['node']],
  },
} as const satisfies Record<string, TableSpec>;

/** Catalog id → the engine's name. */
export type ServedNames = Readonly<Record<string, string>>;

export type TableName = keyof typeof tableSpecs;
export const tableNames = Object.keys(tableSpecs) as TableName[];
export type RowOf<Name extends TableName> = RowWith<(typeof tableSpecs)[Name]['columns']>;

/** The marks of a table's rows. */
export type MarkOf<Name extends TableName> = (typeof tableSpecs)[Name] extends { readonly marks: infer Marks }
  ? keyof Marks & string
  : never;

/** A key with / between its columns. */
export function keyText(table: TableName, row: Readonly<Record<string, unknown>>): string {
  return tableSpecs[table].key.map((column) => String(row[column])).join('/');
}

/** Its columns: a name of a model may have a slash, and it is always the last part. */
export function keyParts(table: TableName, text: string): string[] {
  if (tableSpecs[table].key.length === 1) return [text];
  const [first = '', ...rest] = text.split('/');
  return [first, rest.join('/')];
}

export function indexName(table: TableName, index: readonly string[]): string {
  return `${table}_by_${index.join('_')}`;
}

/** What was removed from tables with marks; bounded by the journal, and no part of the digests. */
const removedSql = `
CREATE TABLE removed (      -- what an explanation says of a thing that is not there any more
  kind TEXT, id TEXT,     -- table, and key with / between its columns
  seq INTEGER,            -- the commit that removed it
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX removed_by_seq ON removed (seq);
`;

/** Derived from the rows of keys and stored with them, see key-counts.ts; no part of the digests. */
const keyCountSql = `
CREATE TABLE key_count (  -- how many keys end on a day
  organisation TEXT,      -- '': all keys
  day INTEGER,            -- days since 1970, of keys that never end, a day that never comes
  keys INTEGER NOT NULL,
  PRIMARY KEY (organisation, day)
) STRICT, WITHOUT ROWID;
`;

/** SQL that makes the tables; WITHOUT ROWID keeps a look-up by key one descent of one tree. */
export function schemaSql(): string {
  const tables = tableNames
    .map((name) => {
      const spec: TableSpec = tableSpecs[name];
      const columns = [
        ...Object.entries(spec.columns).map(([column, { sql }]) => `${column} ${sql}`),
        ...Object.keys(spec.marks ?? {}).map((mark) => `${mark} INTEGER`),
      ];
      const indexes = (spec.indexes ?? []).map(
        (index) => `CREATE INDEX ${indexName(name, index)} ON ${name} (${index.join(', ')});`,
      );
      return `CREATE TABLE ${name} (${columns.join(', ')}, PRIMARY KEY (${spec.key.join(', ')})) STRICT, WITHOUT ROWID;\n${indexes.join('\n')}`;
    })
    .join('\n');
  return `${tables}${removedSql}${keyCountSql}`;
}

const neverMs = Number.MAX_SAFE_INTEGER;

/** When a key ends or ended, ms since 1970: by its revocation or its expiry, whichever is earlier. */
export const keyEndSql = `min(ifnull(revoked_at, ${neverMs}), ifnull(expires_at, ${neverMs}))`;
export function keyEndMs(row: Pick<RowOf<'api_key'>, 'revoked_at' | 'expires_at'>): number {
  return Math.min(row.revoked_at ?? neverMs, row.expires_at ?? neverMs);
}

/**
 * The orders in which keys are listed and forgotten, of a snapshot alone. Apart from `indexes`, because the history has those,
 * too.
 */
export const keyOrdersSql = `
CREATE INDEX api_key_by_created_at ON api_key (created_at);
CREATE INDEX api_key_by_end ON api_key (${keyEndSql});
`;

const sum128 = (1n << 128n) - 1n;

const sha256Hex: (text: string) => string =
  typeof nodeCrypto.hash === 'function'
    ? (text) => nodeCrypto.hash('sha256', text, 'hex')
    : (text) => createHash('sha256').update(text).digest('hex');

/** The hash of one canonical row, as a number below 2^128. */
export function rowDigest(table: TableName, row: TableRow): bigint {
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

/** A table's sum as it is stored and shown: 32 hex digits. */
export function hex128(sum: bigint): string {
  return sum.toString(16).padStart(32, '0');
}

/** All tables in one digest, 16 hex digits: which processes report to each other. */
export function digestOfTables(digests: Readonly<Record<TableName, string>>): string {
  return sha256Hex(JSON.stringify(digests)).slice(0, 16);
}
