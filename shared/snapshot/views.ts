/** Reads states other than the one after the last commit. Readers get a database and need not know which state it shows. */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { type Database, openDatabase } from '../runtime/sqlite.ts';
import type { EventContext } from './effect.ts';
import { type TableName, tableNames } from './tables.ts';
import type { OpenOverlay, StateView } from './waves.ts';

export interface State {
  readonly db: Database;
  /** Number of the last commit included in the state. */
  readonly seq: number;
  /** The open change, if its rows replace the base rows in this state. */
  readonly overlaid?: OpenOverlay | undefined;
}

/** A past state. For each table, `select` returns a SELECT that yields the table's rows in that state. */
interface PastKind {
  readonly kind: 'past';
  readonly seq: number;
  readonly select: (table: TableName) => string;
  /** Whether the state includes the rows of the change that was open at that time. */
  readonly isOfWave: boolean;
}
/** The present state, with or without the rows of the open change. */
interface PresentKind {
  readonly kind: 'present';
  readonly view: StateView;
}
/** The present state with some uncommitted events applied. */
interface PreviewedKind {
  readonly kind: 'previewed';
  readonly events: Iterable<KnownEvent>;
  readonly context: EventContext;
}
export type StateKind = PastKind | PresentKind | PreviewedKind;

/** Covers the tables with temporary views, so that every read on this connection sees the past state. */
function showState(db: Database, log: string | null, { seq, select }: PastKind): void {
  const views = tableNames.map((name) => `CREATE TEMP VIEW ${name} AS ${select(name)};`);
  const id = log === null ? 'NULL' : `'${log.replaceAll("'", "''")}'`;
  db.exec(`${views.join('\n')} CREATE TEMP VIEW position AS SELECT 1 AS lock, ${id} AS log, ${seq} AS seq;`);
}

const keptMax = 8;

/** Cache of read-only connections to one file, each of which shows one past state. Keeps the eight most recently used. */
export class PastStateCache {
  readonly #path: string;
  readonly #kept = new Map<string, Database>();

  constructor(path: string) {
    this.#path = path;
  }

  at(log: string | null, past: PastKind): Database {
    const name = `${past.seq} ${past.isOfWave}`;
    const db = this.#kept.get(name) ?? this.#open(log, past);
    this.#kept.delete(name);
    this.#kept.set(name, db);
    const [oldest] = this.#kept;
    if (oldest !== undefined && this.#kept.size > keptMax) {
      this.#kept.delete(oldest[0]);
      // Close later, because the caller may still read from the connection in this turn of the event loop.
      setImmediate(() => oldest[1].close());
    }
    return db;
  }

  close(): void {
    for (const db of this.#kept.values()) db.close();
    this.#kept.clear();
  }

  #open(log: string | null, past: PastKind): Database {
    const db = openDatabase(this.#path, { durability: 'normal', readOnly: true });
    try {
      showState(db, log, past);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  }
}
