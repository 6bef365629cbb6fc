/**
 * Other states than that of the last commit. Whatever reads a state reads a database, so look-ups and lists know no difference:
 * a state that the tables do not have is a connection whose temporary views hide them.
 */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { type Database, openDatabase } from '../runtime/sqlite.ts';
import type { EventContext } from './effect.ts';
import { type TableName, tableNames } from './tables.ts';
import type { Overlaid, StateView } from './waves.ts';

export interface State {
  readonly db: Database;
  /** The last commit that it has. */
  readonly seq: number;
  /** The open change whose rows it shows. */
  readonly overlaid?: Overlaid | undefined;
}

/** A state whose rows are those of a select for each table. */
interface PastKind {
  readonly kind: 'past';
  readonly seq: number;
  readonly select: (table: TableName) => string;
  /** The rows of an open change are shown. */
  readonly isOfWave: boolean;
}
/** The last state, as gateways read it. */
interface PresentKind {
  readonly kind: 'present';
  readonly view: StateView;
}
/** The last state with events that are no commit. */
interface PreviewedKind {
  readonly kind: 'previewed';
  readonly events: Iterable<KnownEvent>;
  readonly context: EventContext;
}
export type StateKind = PastKind | PresentKind | PreviewedKind;

/** Makes every read of this connection read such a state. */
function showState(db: Database, log: string | null, { seq, select }: PastKind): void {
  const views = tableNames.map((name) => `CREATE TEMP VIEW ${name} AS ${select(name)};`);
  const id = log === null ? 'NULL' : `'${log.replaceAll("'", "''")}'`;
  db.exec(`${views.join('\n')} CREATE TEMP VIEW position AS SELECT 1 AS lock, ${id} AS log, ${seq} AS seq;`);
}

const keptMax = 8;

/** Connections to one file, each of which shows one state; the last ones used are kept. */
export class ShownStates {
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
      // Its user reads it in this turn.
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
