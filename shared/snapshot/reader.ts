/**
 * A second, read-only connection to a snapshot, for many small reads: it stays inside one read transaction, so that a
 * look-up takes no file lock, and moves to the newest commit on `refresh`.
 */
import { type Database, openDatabase, shortenWal } from '../runtime/sqlite.ts';
import type { Snapshot } from './snapshot.ts';

export class SnapshotReader {
  readonly db: Database;
  readonly #snapshot: Pick<Snapshot, 'db' | 'path'>;

  constructor(snapshot: Pick<Snapshot, 'db' | 'path'>) {
    this.#snapshot = snapshot;
    this.db = openDatabase(snapshot.path, { durability: 'normal', readOnly: true });
    this.#begin();
  }

  /** From here on reads see everything that is committed now. Must follow each slice of the fold, in its turn. */
  refresh(): void {
    this.db.exec('COMMIT');
    // Only now does nothing here read the write-ahead log: a log that always has a reader never begins again.
    shortenWal(this.#snapshot.db, this.#snapshot.path);
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
