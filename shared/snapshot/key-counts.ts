/**
 * Counts keys by organisation and by the day on which they end, so that a limit on keys is checked without reading all keys.
 * The counts are derived from the rows, and stored in the transaction that changes the rows.
 */
import { dayMs } from '../../schemas/durations.ts';
import type { Database, Statement } from '../runtime/sqlite.ts';
import { keyEndMs, type RowOf } from './tables.ts';

type KeyRow = RowOf<'api_key'>;

interface CountChange {
  /** Id of the organisation. An empty id means the total of all organisations. */
  readonly organisation: string;
  readonly day: number;
  keys: number;
}

export function dayNumber(ms: number): number {
  return Math.floor(ms / dayMs);
}

export class KeyCounts {
  readonly #add: Statement;
  readonly #sweep: Statement;
  #changes = new Map<string, CountChange>();

  constructor(db: Database) {
    this.#add = db.prepare(
      'INSERT INTO key_count (organisation, day, keys) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET keys = keys + excluded.keys',
    );
    this.#sweep = db.prepare('DELETE FROM key_count WHERE organisation = ? AND day = ? AND keys = 0');
  }

  /** Updates the counts after a key was written or removed. */
  changed(before: KeyRow | undefined, after: KeyRow | undefined): void {
    if (before) this.#count(before, -1);
    if (after) this.#count(after, 1);
  }

  /** Skip a revocation of an unknown key, because its row does not name an organisation. */
  #count(row: KeyRow, by: number): void {
    if (row.organisation === null) return;
    const day = dayNumber(keyEndMs(row));
    for (const organisation of ['', row.organisation]) {
      const id = `${day} ${organisation}`;
      const change = this.#changes.get(id);
      if (change) change.keys += by;
      else this.#changes.set(id, { organisation, day, keys: by });
    }
  }

  /** Writes the pending counts to the database. Call it in the transaction that changed the rows. */
  store(): void {
    for (const { organisation, day, keys } of this.#changes.values()) {
      if (keys === 0) continue;
      this.#add.run(organisation, day, keys);
      if (keys < 0) this.#sweep.run(organisation, day);
    }
    this.#changes = new Map();
  }

  /** Discards the pending counts after a rollback. */
  reset(): void {
    this.#changes = new Map();
  }
}
