/**
 * Changes the stored log position, as anyone who can write to the data folder could. The position's checksum has no key, so
 * it can be recomputed.
 */

import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { type FoldedColumns, positionChecksum } from '../../shared/snapshot/position.ts';

export function forgePosition(db: Database, sql: string): void {
  db.exec(sql);
  const row = db.prepare('SELECT * FROM position').get() as FoldedColumns;
  db.prepare('UPDATE position SET checksum = ?').run(positionChecksum(row));
}

/** Changes the position in the database file at `path`. No process may have the file open. */
export function forgePositionIn(path: string, sql: string): void {
  const db = openDatabase(path, { durability: 'normal' });
  try {
    forgePosition(db, sql);
  } finally {
    db.close();
  }
}
