/**
 * A second, read-only connection to a snapshot, for many small reads: it stays inside one read transaction, so that a
 * look-up takes no file lock, and moves to the newest commit on `refresh`.
 */
import { type Database, openDatabase } from '../runtime/sqlite.ts';

export class SnapshotReader {
  readonly db: Database;

  constructor(path: string) {
    this.db = openDatabase(path, { durability: 'normal', readOnly: true });
    this.#begin();
  }

  /** From here on reads see everything that is committed now. Must follow each slice of the fold, in its turn. */
  refresh(): void {
    this.db.exec('COMMIT');
    this.#begin();
  }

  close(): void {
    if (this.db.open) this.db.close();
  }

  /** A transaction takes its view of the file at its first read. */
  #begin(): void {
    this.db.exec('BEGIN; SELECT seq FROM position');
  }
}
