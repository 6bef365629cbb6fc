/** Reads states other than the one after the last commit. Readers take a database and need not know which state it shows. */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { type Database, openDatabase } from '../runtime/sqlite.ts';
import type { EventContext } from './effect.ts';
import { type TableName, tableNames } from './tables.ts';
import type { OpenOverlay, StateView } from './waves.ts';

export interface State {
  readonly db: Database;
  /** Last commit of the state. */
  readonly seq: number;
  /** The open change whose rows this state includes. */
  readonly overlaid?: OpenOverlay | undefined;
}

/** A past state, whose rows come from one SELECT per table. */
interface PastKind {
  readonly kind: 'past';
  readonly seq: number;
  readonly select: (table: TableName) => string;
  /** Whether the rows of the open change are included. */
  readonly isOfWave: boolean;
}
/** The present state, as a given view of an open change. */
interface PresentKind {
  readonly kind: 'present';
  readonly view: StateView;
}
/** The present state plus uncommitted events. */
interface PreviewedKind {
  readonly kind: 'previewed';
  readonly events: Iterable<KnownEvent>;
  readonly context: EventContext;
}
export type StateKind = PastKind | PresentKind | PreviewedKind;

/** Hides the tables behind temporary views, so that every read on this connection sees the past state. */
function showState(db: Database, log: string | null, { seq, select }: PastKind): void {
  const views = tableNames.map((name) => `CREATE TEMP VIEW ${name} AS ${select(name)};`);
  const id = log === null ? 'NULL' : `'${log.replaceAll("'", "''")}'`;
  db.exec(`${views.join('\n')} CREATE TEMP VIEW position AS SELECT 1 AS lock, ${id} AS log, ${seq} AS seq;`);
}

const keptMax = 8;

/** Connections to one file, each showing one past state. Keeps the eight most recently used ones. */
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
      // The caller may still read from the connection in this turn of the event loop.
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
