/** Tables of a snapshot and their digests. A digest is the sum, mod 2^128, of the hashes of a table's rows without marks. */

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
  /** Columns of the table, in the order in which its digest hashes them. */
  readonly columns: Columns;
  readonly key: readonly string[];
  readonly indexes?: readonly (readonly string[])[];
  /**
   * Mark columns. Each contains the number of the commit that last set the row, so that explanations can name the event. A
   * mark is updated if one of its listed columns changes, or on every write if the list is empty. Rows removed from tables
   * with marks leave tombstones.
   */
  readonly marks?: Readonly<Record<string, readonly string[]>>;
}

/** Mark column that is updated whenever the row is written. */
const anyWrite = { set_at: [] } as const;

/** Columns, keys and indexes of all tables. Times are in ms since 1970. The fold must not fail, so it ensures NOT NULL. */
export const tableSpecs = {
  tier: {
    columns: {
      id: text(), // tier name, or `anonymous` for visitors
      rank: orNull(integer()), // sort order, lowest first; NULL for anonymous
      requests_per_minute: orNull(integer()), // NULL means unlimited, also in the columns below
      concurrency: orNull(integer()),
      context_tokens: orNull(integer()),
      monthly_tokens: orNull(integer()),
      free_turns: orNull(integer()), // this and the following columns are used only for visitors
      network_factor: orNull(integer()),
      total_requests_per_minute: orNull(integer()), // limit on all visitors together
      total_concurrency: orNull(integer()),
      total_tokens_per_day: orNull(integer()),
    },
    key: ['id'],
    marks: anyWrite,
  },
  tier_model: { columns: { tier: text(), model: text() /* model name, or * */ }, key: ['tier', 'model'] },
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
      // From `hash` to `created_by`, columns are NULL if only the key's revocation is known.
      hash: orNull(blob()), // SHA-256 of the key text
      organisation: orNull(text<OrganisationId>()),
      name: orNull(text()),
      expires: orNull(text<ExpiryChoice>()),
      expires_at: orNull(integer()), // NULL if the key never expires
      created_at: orNull(integer()),
      created_by: orNull(text()),
      revoked_at: orNull(integer()), // NULL if the key is not revoked
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
      credential: orNull(text()), // name of the credential, never its value
      models: orNull(text<JsonColumn<ServedNames>>()), // engine's model names by catalogue id, if they differ
      agent: integer(),
      drained: integer(),
      owner: orNull(text()), // control-plane replica that monitors the node
      generation: integer(), // number of times that a control plane claimed ownership of the node
      up: integer(),
      loaded: text<JsonColumn<readonly string[]>>(), // model names that the engine reports
      windows: text<JsonColumn<Readonly<Record<string, number>>>>(), // context window in tokens, by the engine's model name
      image_models: text<JsonColumn<readonly string[]>>(), // engine's names of the models that accept images
      rerank_models: text<JsonColumn<readonly string[]>>(), // engine's names of the models that can only rerank
      reason: orNull(text()),
      changed_at: orNull(integer()), // time of the last change of health; NULL before the first report
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
    columns: {
      organisation: text<OrganisationId>(),
      period: text() /* first day of the period */,
      tokens: integer(),
    },
    key: ['organisation', 'period'],
  },
  /** Fleet-wide bounds on what members may do. The table contains one row, or none if the fleet does not set bounds. */
  bounds: {
    columns: {
      id: text(), // always `fleet`, because the table has only one row
      active_keys_per_organisation: orNull(integer()), // NULL means the control plane's default, also in the columns below
      keys_per_organisation: orNull(integer()),
      commands_per_person_per_minute: orNull(integer()),
      commands_per_organisation_per_minute: orNull(integer()),
    },
    key: ['id'],
  },
  /** The change that is being released in waves. Contains at most one row. */
  change: {
    columns: {
      slot: text<'open'>(),
      id: text(),
      events: text<JsonColumn<readonly StoredEvent[]>>(), // events of types that this build knows, in the log's format
      waves: text<JsonColumn<readonly Wave[]>>(),
      wave: integer(), // number of waves that have begun
      wave_at: integer(), // time when the last wave began
      hold_seconds: integer(),
      watch: text<JsonColumn<ChangeWatch>>(),
      advance_unseen: integer(),
      at: integer(),
      by: text(),
      passed_over: integer(), // number of staged events that no longer apply to the current rows
      passed_over_reason: orNull(text()), // why the first of these events no longer applies
    },
    key: ['slot'],
    marks: { ...anyWrite, staged_at: ['id'], advanced_at: ['id', 'wave'] },
  },
  /** Recently completed or withdrawn changes. */
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
      reason: orNull(text()), // why the change was withdrawn; NULL if completed
    },
    key: ['id'],
    indexes: [['state']],
    marks: anyWrite,
  },
  /** Rows that the open change would replace or remove. Derived from other tables by `overlay.ts`. */
  overlay: {
    columns: {
      tbl: text(),
      key: text(), // key columns joined by /
      row: orNull(text<JsonColumn<TableRow>>()), // NULL if the change removes the row
    },
    key: ['tbl', 'key'],
  },
  /** Nodes that can currently serve a model at a place, with the properties that requests need. The fold derives them. */
  routes: {
    columns: {
      place: text<PlaceKey>(),
      model: text(),
      node: text<NodeId>(),
      served: text(), // engine's name for the model
      url: text(),
      dialect: text<Dialect>(),
      credential: orNull(text()),
      window_tokens: orNull(integer()), // context window in tokens; NULL if the engine does not report it
      takes_images: integer(), // 1 if the model is known to accept images
      reranks: integer(), // 1 if the model is known to rerank and do nothing else
    },
    key: ['place', 'model', 'node'],
    indexes: [['node']],
  },
} as const satisfies Record<string, TableSpec>;

/** Maps a catalogue id to the engine's name for the model. */
export type ServedNames = Readonly<Record<string, string>>;

export type TableName = keyof typeof tableSpecs;
export const tableNames = Object.keys(tableSpecs) as TableName[];
export type RowOf<Name extends TableName> = RowWith<(typeof tableSpecs)[Name]['columns']>;

export type MarkOf<Name extends TableName> = (typeof tableSpecs)[Name] extends { readonly marks: infer Marks }
  ? keyof Marks & string
  : never;

/** Joins the key columns of a row with `/`. */
export function formatKey(table: TableName, row: Readonly<Record<string, unknown>>): string {
  return tableSpecs[table].key.map((column) => String(row[column])).join('/');
}

/** Splits a key into its columns. Only the last column, which may be a model name, may itself contain a slash. */
export function splitKey(table: TableName, text: string): string[] {
  if (tableSpecs[table].key.length === 1) return [text];
  const [first = '', ...rest] = text.split('/');
  return [first, rest.join('/')];
}

export function indexName(table: TableName, index: readonly string[]): string {
  return `${table}_by_${index.join('_')}`;
}

/** Tombstones of rows removed from tables with marks. The journal deletes old ones. Digests do not cover them. */
const removedSql = `
CREATE TABLE removed (      -- facts about removed objects, for explanations
  kind TEXT, id TEXT,     -- table, and key columns joined by /
  seq INTEGER,            -- commit that removed it
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX removed_by_seq ON removed (seq);
`;

/** Number of keys per organisation and end day, derived from the key rows (see `key-counts.ts`). Digests do not cover it. */
const keyCountSql = `
CREATE TABLE key_count (  -- number of keys that end on a day
  organisation TEXT,      -- '' for all keys
  day INTEGER,            -- days since 1970, or a day that never comes for keys without an end
  keys INTEGER NOT NULL,
  PRIMARY KEY (organisation, day)
) STRICT, WITHOUT ROWID;
`;

/** SQL that creates all tables. WITHOUT ROWID makes a look-up by key a single B-tree descent. */
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

/** SQL for the time when a key ends, in ms since 1970: its revocation or its expiry, whichever is earlier. */
export const keyEndSql = `min(ifnull(revoked_at, ${neverMs}), ifnull(expires_at, ${neverMs}))`;
export function keyEndMs(row: Pick<RowOf<'api_key'>, 'revoked_at' | 'expires_at'>): number {
  return Math.min(row.revoked_at ?? neverMs, row.expires_at ?? neverMs);
}

/** Indexes for listing keys and for removing old ones. Only snapshots need them; history databases do not. */
export const keyOrdersSql = `
CREATE INDEX api_key_by_created_at ON api_key (created_at);
CREATE INDEX api_key_by_end ON api_key (${keyEndSql});
`;

const sum128 = (1n << 128n) - 1n;

const sha256Hex: (text: string) => string =
  typeof nodeCrypto.hash === 'function'
    ? (text) => nodeCrypto.hash('sha256', text, 'hex')
    : (text) => createHash('sha256').update(text).digest('hex');

/** Hashes one row in canonical form to a number below 2^128. */
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

/** Formats a table's digest as 32 hex digits. */
export function hex128(sum: bigint): string {
  return sum.toString(16).padStart(32, '0');
}

/** Combines the digests of all tables into one of 16 hex digits. Processes report it so that they can be compared. */
export function combineDigests(digests: Readonly<Record<TableName, string>>): string {
  return sha256Hex(JSON.stringify(digests)).slice(0, 16);
}
