/** Tables of `history.db`: every commit, and every version of a row, valid from `set_seq` until just before `end_seq`. */
import { createHash } from 'node:crypto';
import { columnsSql, integer, orNull, type RowWith, text } from '../../shared/runtime/table-columns.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { overlaidSelect, overlaidTables } from '../../shared/snapshot/overlay.ts';
import {
  hex128,
  type TableName,
  type TableSpec,
  tableNames,
  tableSpecs,
} from '../../shared/snapshot/tables.ts';
import type { StateKind } from '../../shared/snapshot/views.ts';

/** Value of `end_seq` in row versions that are still valid. */
export const openEnd = Number.MAX_SAFE_INTEGER;
/** Number of commits between two stored digests. Digests at other positions are computed from the stored ones. */
export const commitsPerSpan = 1000;

/**
 * Tables whose rows are created once, revoked at most once, and looked up by a hash, so filtering by position reads few
 * versions. Rows of other tables may change any number of times, so each row is looked up by its key and its last version
 * before a position.
 */
const madeOnce: ReadonlySet<TableName> = new Set(['api_key', 'node_token']);

const columnsOf = (table: TableName): string[] => Object.keys(tableSpecs[table].columns);
const keyOf = (table: TableName): readonly string[] => tableSpecs[table].key;
const same = (table: TableName, a: string, b: string): string =>
  keyOf(table)
    .map((column) => `${a}.${column} = ${b}.${column}`)
    .join(' AND ');

function versionSql(table: TableName): string {
  const spec: TableSpec = tableSpecs[table];
  const columns = Object.entries(spec.columns).map(([name, { sql }]) => `${name} ${sql}`);
  const key = spec.key.join(', ');
  const keyColumns = spec.key.map((name) => `${name} ${spec.columns[name]?.sql}`).join(', ');
  const indexes = madeOnce.has(table) ? (spec.indexes ?? []) : [];
  return [
    `CREATE TABLE past_${table} (${columns.join(', ')}, set_seq INTEGER NOT NULL, end_seq INTEGER NOT NULL,
       PRIMARY KEY (${key}, set_seq)) STRICT, WITHOUT ROWID;`,
    `CREATE TABLE key_${table} (${keyColumns}, PRIMARY KEY (${key})) STRICT, WITHOUT ROWID;`,
    ...indexes.map(
      (index) =>
        `CREATE INDEX past_${table}_by_${index.join('_')} ON past_${table} (${index.join(', ')}, set_seq);`,
    ),
  ].join('\n');
}

const commitColumns = {
  seq: integer(),
  at: text(), // time as text, exactly as the writer wrote it
  clock_ms: integer(), // latest time of this commit and all earlier ones, in ms since 1970
  author: text(),
  why: orNull(text()),
  via: orNull(text()),
  command: text(),
  kind: text(), // first part of the type of the commit's first event
  events: text(), // events of the commit, as JSON
  signers: orNull(text()), // signers that the commit sets, as JSON; NULL if it sets none
} as const;

export type HistoryCommit = RowWith<typeof commitColumns>;

const emptyDigests = Object.fromEntries(tableNames.map((name) => [name, hex128(0n)])) as Record<
  TableName,
  string
>;

export function historySql(): string {
  return `
${tableNames.map(versionSql).join('\n')}
CREATE TABLE row_change (seq INTEGER, tbl TEXT, key TEXT, PRIMARY KEY (seq, tbl, key)) STRICT, WITHOUT ROWID;
CREATE TABLE history_commit (${columnsSql(commitColumns)}, PRIMARY KEY (seq)) STRICT;
CREATE INDEX history_commit_by_clock ON history_commit (clock_ms, seq, kind);
CREATE INDEX history_commit_by_signers ON history_commit (seq) WHERE signers IS NOT NULL;
CREATE TABLE subject (kind TEXT, id TEXT, seq INTEGER, idx INTEGER, PRIMARY KEY (kind, id, seq, idx)) STRICT, WITHOUT ROWID;
CREATE TABLE span (seq INTEGER PRIMARY KEY, digests TEXT NOT NULL) STRICT;
INSERT INTO span VALUES (0, '${JSON.stringify(emptyDigests)}');
PRAGMA user_version = ${historyFormat()};
`;
}

/** Version of the file format. It changes with the fold and with these tables, so files of other builds are discarded. */
export function historyFormat(): number {
  const tables = JSON.stringify([3, foldVersion, tableSpecs]);
  return createHash('sha256').update(tables).digest().readUInt32BE(0) & 0x7fff_ffff;
}

/** Returns SQL that selects the table as it was after commit `seq`. */
function selectAsOf(table: TableName, seq: number): string {
  const columns = columnsOf(table);
  if (madeOnce.has(table))
    return `SELECT ${columns.join(', ')} FROM main.past_${table} WHERE set_seq <= ${seq} AND end_seq > ${seq}`;
  const key = keyOf(table);
  const shown = columns.map((name) => `${key.includes(name) ? 'k' : 'v'}.${name} AS ${name}`);
  // CROSS JOIN fixes the join order, so that SQLite reads the keys and one version of each key, not all versions.
  return `SELECT ${shown.join(', ')} FROM main.key_${table} k CROSS JOIN main.past_${table} v
    ON ${same(table, 'v', 'k')} AND v.set_seq =
      (SELECT max(x.set_seq) FROM main.past_${table} x WHERE ${same(table, 'x', 'k')} AND x.set_seq <= ${seq})
    WHERE v.end_seq > ${seq}`;
}

/** Describes the state after commit `seq` in the form that a snapshot of this file can present. */
export function pastState(seq: number, isOfWave = false): Extract<StateKind, { readonly kind: 'past' }> {
  const overlaid = isOfWave ? overlaidTables : [];
  const select = (table: TableName): string => {
    const own = overlaid.find((name) => name === table);
    return own === undefined
      ? selectAsOf(table, seq)
      : overlaidSelect(own, (of) => `(${selectAsOf(of, seq)})`, []);
  };
  return { kind: 'past', seq, isOfWave, select };
}
