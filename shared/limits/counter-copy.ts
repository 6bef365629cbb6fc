/** `counters.db`: local copy of what a process has read of the counters topic. If damaged, it is rebuilt from the topic. */
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { CounterEntry } from '../../schemas/records/limits.ts';
import {
  createTables,
  type Database,
  DatabaseCorrupt,
  mapSqliteError,
  OtherFormat,
  openDatabase,
  prepare,
} from '../runtime/sqlite.ts';
import { columnsSql, integer, orNull, type RowWith, text } from '../runtime/table-columns.ts';
import type { CounterState, ReplicaFacts } from './counters.ts';

const columns = {
  replica: { id: text(), process: text(), name: orNull(text()), own_ms: integer(), any_ms: integer() },
  value: { replica: text(), subject: text(), period: text(), tokens: integer(), turns: integer() },
} as const;

const format = {
  version: 2,
  upgrades: { 1: 'DROP TABLE earlier;' },
  sql: `
CREATE TABLE position (id INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL) STRICT;
CREATE TABLE replica (${columnsSql(columns.replica)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE TABLE value (${columnsSql(columns.value)}, PRIMARY KEY (replica, subject, period)) STRICT, WITHOUT ROWID;
`,
};

/** Opens the copy, creates a missing one and replaces a damaged one. Throws other errors from `shared/runtime/sqlite.ts`. */
export function openCounterCopy(path: string): CounterCopy {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    return new CounterCopy(path);
  } catch (error) {
    if (!(error instanceof DatabaseCorrupt) && !(error instanceof OtherFormat)) throw error;
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    return new CounterCopy(path);
  }
}

export class CounterCopy {
  /** Whether the copy was empty when it was opened. */
  readonly isNew: boolean;
  readonly #path: string;
  readonly #db: Database;

  constructor(path: string) {
    this.#path = path;
    const isThere = existsSync(path);
    this.#db = openDatabase(path, { durability: 'normal' });
    try {
      createTables(this.#db, path, format);
      this.isNew = !isThere || this.nextOffset === undefined;
    } catch (error) {
      this.#db.close();
      throw mapSqliteError(error, path);
    }
  }

  /** Topic offset at which reading continues, or undefined if the copy does not contain one. */
  get nextOffset(): number | undefined {
    return prepare<{ next_offset: number }>(this.#db, 'SELECT next_offset FROM position').get()?.next_offset;
  }

  /** Adds all values in the copy to a counter state in memory. */
  loadInto(state: CounterState): void {
    const values = new Map<string, CounterEntry[]>();
    for (const row of prepare<RowWith<typeof columns.value>>(this.#db, 'SELECT * FROM value').iterate()) {
      const entries = values.get(row.replica) ?? [];
      entries.push([row.subject, row.period, row.tokens, row.turns]);
      values.set(row.replica, entries);
    }
    for (const row of prepare<RowWith<typeof columns.replica>>(this.#db, 'SELECT * FROM replica').all()) {
      const facts: ReplicaFacts = {
        id: row.id,
        process: row.process,
        name: row.name ?? undefined,
        ownMs: row.own_ms,
        anyMs: row.any_ms,
      };
      state.restore(facts, values.get(row.id) ?? []);
    }
    for (const _ of state.takeUnsaved());
  }

  /** Writes the changed values to the copy, together with the offset up to which the topic has been read. */
  save(state: CounterState, nextOffset: number, ended: readonly string[] = []): void {
    const replica = this.#db.prepare(
      'INSERT OR REPLACE INTO replica (id, process, name, own_ms, any_ms) VALUES (?, ?, ?, ?, ?)',
    );
    const value = this.#db.prepare(
      'INSERT OR REPLACE INTO value (replica, subject, period, tokens, turns) VALUES (?, ?, ?, ?, ?)',
    );
    const remove = this.#db.prepare('DELETE FROM value WHERE subject = ? AND period = ?');
    const changed = [...state.takeUnsaved()];
    this.#transaction(() => {
      for (const { id, process, name, ownMs, anyMs } of state.replicas)
        replica.run(id, process, name ?? null, ownMs, anyMs);
      for (const { replica: of, entry } of changed) value.run(of, ...entry);
      for (const key of ended) remove.run(...key.split(' '));
      this.#db.prepare('INSERT OR REPLACE INTO position (id, next_offset) VALUES (1, ?)').run(nextOffset);
    });
  }

  close(): void {
    this.#db.close();
  }

  #transaction(change: () => void): void {
    try {
      this.#db.transaction(change).immediate();
    } catch (error) {
      throw mapSqliteError(error, this.#path);
    }
  }
}
