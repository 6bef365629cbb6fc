/**
 * Which commit made the state what it is: the marks of a snapshot's rows, and what is kept of removed ones; on a past state
 * the versions of its rows, which say the same.
 */
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import {
  keyParts,
  type TableName,
  type TableRow,
  type TableSpec,
  tableSpecs,
} from '../../shared/snapshot/tables.ts';

export interface SetAt {
  readonly seq: number;
  /** The row was removed by that commit. */
  readonly removed: boolean;
}

/** Versions looked at for the last change of an aspect; few are, unless a row changes often and this aspect of it never. */
const versionsMax = 20_000;

/**
 * When the row was last set, or removed; undefined where nothing is known of it. `mark` is one of the table's marks,
 * `key` has / between its columns.
 */
export function setAt(db: Database, table: TableName, key: string, mark = 'set_at'): SetAt | undefined {
  const spec: TableSpec = tableSpecs[table];
  const columns = spec.marks && Object.hasOwn(spec.marks, mark) ? spec.marks[mark] : undefined;
  const isPast = hasVersions(db);
  // Every row has versions, and only some have marks.
  if (columns === undefined && !(isPast && mark === 'set_at')) return undefined;
  const parts = keyParts(table, key);
  const where = spec.key.map((column) => `${column} = ?`).join(' AND ');
  return isPast
    ? setAtVersion(db, table, { where, parts, columns: columns ?? [] })
    : setAtMark(db, table, { where, parts, mark, key });
}

/** A past state is shown by views over all versions of its rows. */
function hasVersions(db: Database): boolean {
  return db.prepare("SELECT 1 FROM temp.sqlite_master WHERE name = 'position'").get() !== undefined;
}

function setAtMark(
  db: Database,
  table: TableName,
  { where, parts, mark, key }: { where: string; parts: readonly string[]; mark: string; key: string },
): SetAt | undefined {
  const seq = prepare<number | null, string[]>(db, `SELECT ${mark} FROM ${table} WHERE ${where}`)
    .pluck()
    .get(...parts);
  if (typeof seq === 'number') return { seq, removed: false };
  const removed = prepare<number, string[]>(db, 'SELECT seq FROM removed WHERE kind = ? AND id = ?')
    .pluck()
    .get(table, key);
  return removed === undefined ? undefined : { seq: removed, removed: true };
}

type Version = TableRow & { readonly set_seq: number; readonly end_seq: number };

function setAtVersion(
  db: Database,
  table: TableName,
  { where, parts, columns }: { where: string; parts: readonly string[]; columns: readonly string[] },
): SetAt | undefined {
  const at = prepare<number, []>(db, 'SELECT seq FROM position').pluck().get() ?? 0;
  const versions = prepare<Version, SqlValue[]>(
    db,
    `SELECT ${['set_seq', 'end_seq', ...columns].join(', ')} FROM main.past_${table}
     WHERE ${where} AND set_seq <= ? ORDER BY set_seq DESC LIMIT ${versionsMax}`,
  );
  let found: Version | undefined;
  for (const version of versions.iterate(...parts, at)) {
    if (found === undefined && version.end_seq <= at) return { seq: version.end_seq, removed: true };
    if (found !== undefined && !isContinued(version, found, columns)) break;
    found = version;
  }
  return found && { seq: found.set_seq, removed: false };
}

/** The later version follows at once, and the aspect is the same in both. */
function isContinued(version: Version, later: Version, columns: readonly string[]): boolean {
  if (columns.length === 0 || version.end_seq !== later.set_seq) return false;
  return columns.every((column) => version[column] === later[column]);
}
