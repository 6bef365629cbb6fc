/** A position that was changed by a hand that writes data folders: its checksum, which has no key, is made right again. */

import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { type FoldedColumns, positionChecksum } from '../../shared/snapshot/position.ts';

export function forgePosition(db: Database, sql: string): void {
  db.exec(sql);
  const row = db.prepare('SELECT * FROM position').get() as FoldedColumns;
  db.prepare('UPDATE position SET checksum = ?').run(positionChecksum(row));
}

/** The same with the file at `path`, which nothing may have open. */
export function forgePositionIn(path: string, sql: string): void {
  const db = openDatabase(path, { durability: 'normal' });
  try {
    forgePosition(db, sql);
  } finally {
    db.close();
  }
}
