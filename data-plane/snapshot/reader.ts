/**
 * Read-only connection to a snapshot, for the many small reads of requests. It stays in one read transaction, which avoids
 * locking files. `refresh` moves it to the latest commit. A staged change that applies to this gateway is visible too.
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

  /** Staged change that applies to this gateway, if any. Reads see the change's rows in place of the committed ones. */
  get overlaid(): OpenOverlay | undefined {
    return this.#overlaid;
  }

  /** Makes all commits visible. Must be called after each step of the fold, in the same turn of the event loop. */
  refresh(): void {
    this.db.exec('COMMIT');
    // Shorten the write-ahead log now, while nothing reads it, because SQLite cannot shorten it while there is a reader.
    shortenWal(this.#snapshot.db, this.#snapshot.path);
    this.#begin();
  }

  close(): void {
    if (this.db.open) this.db.close();
  }

  /** Begins the next transaction. The first read fixes the state that the transaction sees. */
  #begin(): void {
    this.db.exec('BEGIN; SELECT seq FROM position');
    this.#chooseView();
  }

  /** Shows or hides the staged change's rows, by views in place of the tables. Prepared statements use the views, too. */
  #chooseView(): void {
    const was = this.#overlaid;
    this.#overlaid = overlayForGateway(this.db, this.#gateway);
    if ((was === undefined) !== (this.#overlaid === undefined)) this.db.exec(was ? hideOverlay : showOverlay);
  }
}
