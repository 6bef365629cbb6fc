/**
 * A second, read-only connection to a snapshot, for many small reads: it stays inside one read transaction, so that a
 * look-up takes no file lock, and moves to the newest commit on `refresh`. It reads the state of one gateway: where an open change
 * has reached it, that is the one with the change.
 */
import { type Database, openDatabase, shortenWal } from '../../shared/runtime/sqlite.ts';
import { hideOverlay, showOverlay } from '../../shared/snapshot/overlay.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { type Overlaid, overlaidAt } from '../../shared/snapshot/waves.ts';

export class SnapshotReader {
  readonly db: Database;
  readonly #snapshot: Pick<Snapshot, 'db' | 'path'>;
  readonly #gateway: string;
  #overlaid: Overlaid | undefined;

  constructor(snapshot: Pick<Snapshot, 'db' | 'path'>, gateway: string) {
    this.#snapshot = snapshot;
    this.#gateway = gateway;
    this.db = openDatabase(snapshot.path, { durability: 'normal', readOnly: true });
    this.#begin();
  }

  /** The change that has reached this gateway: its rows are read in place of the others. */
  get overlaid(): Overlaid | undefined {
    return this.#overlaid;
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
    this.#chooseView();
  }

  /** Once a commit: views of the connection hide the tables, so that statements that are there already read them, too. */
  #chooseView(): void {
    const was = this.#overlaid;
    this.#overlaid = overlaidAt(this.db, this.#gateway);
    if ((was === undefined) !== (this.#overlaid === undefined)) this.db.exec(was ? hideOverlay : showOverlay);
  }
}
