/** Tables of `usage.db` that tell which completed requests are in day files. */
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import { columnsSql, integer, type RowWith, text } from '../../shared/runtime/table-columns.ts';
import { prepareRequests } from './request-table.ts';

const columns = {
  kept: {
    one: integer(), // always 1, because the table has one row
    id: text(), // id of this database, by which it recognises its day files
    moved: integer(), // rows of `request` up to this id are in day files
    uncounted: integer(), // always 0; version 0.2.0 opens only files with this column
    from_day: text(), // first day whose rows are kept
  },
  day: {
    day: text(), // UTC day on which the requests completed
    first_id: integer(),
    last_id: integer(),
    rows: integer(),
  },
} as const;

export type Kept = RowWith<typeof columns.kept>;
/** Range of row ids in one day's file. */
export type DayRows = RowWith<typeof columns.day>;

export const keptSql = `
CREATE TABLE kept (${columnsSql(columns.kept)}, PRIMARY KEY (one)) STRICT;
CREATE TABLE day (${columnsSql(columns.day)}, PRIMARY KEY (day)) STRICT, WITHOUT ROWID;
INSERT INTO kept (one, id, moved, uncounted, from_day) VALUES (1, lower(hex(randomblob(16))), 0, 0, '');
`;

export function prepareKept(db: Database) {
  return {
    ...prepareRequests(db),
    addRequest: prepare<never, [string | null, string | null, string]>(
      db,
      'INSERT INTO request (organisation, period, body) VALUES (?, ?, ?)',
    ),
    kept: prepare<Kept, []>(db, 'SELECT * FROM kept'),
    days: prepare<DayRows, []>(db, 'SELECT * FROM day ORDER BY first_id'),
    setMoved: prepare<never, [number]>(db, 'UPDATE kept SET moved = ?'),
    addDay: prepare<never, [DayRows]>(
      db,
      `INSERT INTO day VALUES (@day, @first_id, @last_id, @rows) ON CONFLICT DO UPDATE SET
         last_id = excluded.last_id, rows = rows + excluded.rows`,
    ),
    setFromDay: prepare<never, [string]>(db, 'UPDATE kept SET from_day = ?'),
    removeDays: prepare<never, [string]>(db, 'DELETE FROM day WHERE day < ?'),
    // The last row stays, because SQLite derives the next id from it.
    removeMoved: prepare<never, [number]>(
      db,
      `DELETE FROM request WHERE id IN (SELECT id FROM request
         WHERE id <= (SELECT moved FROM kept) AND id < (SELECT max(id) FROM request) ORDER BY id LIMIT ?)`,
    ),
  };
}
