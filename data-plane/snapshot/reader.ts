/**
 * A second, read-only connection to a snapshot for many small reads, including an open change that has reached this gateway.
 * It stays inside one read transaction, which avoids file locks, and moves to the newest commit on `refresh`.
 */
import { type Database, openDatabase, shortenWal } from '../../shared/runtime/sqlite.ts';
import { hideOverlay, showOverlay } from '../../shared/snapshot/overlay.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { type OpenOverlay, overlayForGateway } from '../../shared/snapshot/waves.ts';

export class SnapshotReader {
  readonly db: Database;
  readonly #snapshot: Pick<Snapshot, 'db' | 'path'>;
  readonly #gateway: string;
  #overlaid: OpenOverlay | undefined;

  constructor(snapshot: Pick<Snapshot, 'db' | 'path'>, gateway: string) {
    this.#snapshot = snapshot;
    this.#gateway = gateway;
    this.db = openDatabase(snapshot.path, { durability: 'normal', readOnly: true });
    this.#begin();
  }

  /** Open change that has reached this gateway. Its rows replace the others in reads. */
  get overlaid(): OpenOverlay | undefined {
    return this.#overlaid;
  }

  /** Makes all present commits visible. Must be called after each slice of the fold, in the same turn of the event loop. */
  refresh(): void {
    this.db.exec('COMMIT');
    // Shorten the write-ahead log now, while nothing reads it: a log that always has a reader is never restarted.
    shortenWal(this.#snapshot.db, this.#snapshot.path);
    this.#begin();
  }

  close(): void {
    if (this.db.open) this.db.close();
  }

  /** Begins the next transaction. It takes its view of the file at its first read. */
  #begin(): void {
    this.db.exec('BEGIN; SELECT seq FROM position');
    this.#chooseView();
  }

  /** Shows or hides the change's rows with views that replace the tables. Existing statements read the views too. */
  #chooseView(): void {
    const was = this.#overlaid;
    this.#overlaid = overlayForGateway(this.db, this.#gateway);
    if ((was === undefined) !== (this.#overlaid === undefined)) this.db.exec(was ? hideOverlay : showOverlay);
  }
}
