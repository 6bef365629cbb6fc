/** Finds the commit that set or removed a row: in the current state by the row's marks, in a past one by its versions. */
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import {
  splitKey,
  type TableName,
  type TableRow,
  type TableSpec,
  tableSpecs,
} from '../../shared/snapshot/tables.ts';

export interface SetAt {
  readonly seq: number;
  /** Whether the commit removed the row. */
  readonly removed: boolean;
}

/** Maximum number of versions to read. It is reached only if a row changes often but the columns in question never do. */
const versionsMax = 20_000;

/** Finds the commit that last set or removed a row, if it is known. `key` contains the key columns, separated by `/`. */
export function findSetCommit(
  db: Database,
  table: TableName,
  key: string,
  mark = 'set_at',
): SetAt | undefined {
  const spec: TableSpec = tableSpecs[table];
  const columns = spec.marks && Object.hasOwn(spec.marks, mark) ? spec.marks[mark] : undefined;
  const isPast = hasVersions(db);
  // A past state knows when any row was set. Otherwise, only aspects of a row with columns of their own can be traced.
  if (columns === undefined && !(isPast && mark === 'set_at')) return undefined;
  const parts = splitKey(table, key);
  const where = spec.key.map((column) => `${column} = ?`).join(' AND ');
  return isPast
    ? setAtVersion(db, table, { where, parts, columns: columns ?? [] })
    : setAtMark(db, table, { where, parts, mark, key });
}

/** Whether the database shows a past state, which consists of views over all versions of the rows. */
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

/** Whether the later version of a row directly follows this one and leaves the given columns unchanged. */
function isContinued(version: Version, later: Version, columns: readonly string[]): boolean {
  if (columns.length === 0 || version.end_seq !== later.set_seq) return false;
  return columns.every((column) => version[column] === later[column]);
}
