/** Connections to past states: each shows the state after one commit, and the last ones used are kept. */
import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { showPast } from './tables.ts';

const keptMax = 8;

export class PastDatabases {
  readonly #path: string;
  readonly #kept = new Map<number, Database>();

  constructor(path: string) {
    this.#path = path;
  }

  /** The commit must be in the history. */
  at(log: string | null, seq: number): Database {
    const db = this.#kept.get(seq) ?? this.#open(log, seq);
    this.#kept.delete(seq);
    this.#kept.set(seq, db);
    const [oldest] = this.#kept;
    if (oldest !== undefined && this.#kept.size > keptMax) {
      this.#kept.delete(oldest[0]);
      // Its user reads it in this turn.
      setImmediate(() => oldest[1].close());
    }
    return db;
  }

  close(): void {
    for (const db of this.#kept.values()) db.close();
    this.#kept.clear();
  }

  #open(log: string | null, seq: number): Database {
    const db = openDatabase(this.#path, { durability: 'normal', readOnly: true });
    try {
      showPast(db, log, seq);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  }
}
