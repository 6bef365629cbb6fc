/**
 * Database of the outbox, `outbox.db`. Stores the counters, and how far the row log has been counted and shipped. It cannot
 * be restored from anything else. A power cut may lose the last transactions only if counting the row log again gives the
 * same sums and numbers. All other transactions are flushed to disk before `write` returns.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import type { CounterEntry } from '../../schemas/records/limits.ts';
import {
  createTables,
  type Database,
  DatabaseCorrupt,
  mapSqliteError,
  openDatabase,
  prepare,
  type Statement,
} from '../../shared/runtime/sqlite.ts';
import { ledgerSql, OutboxLedger } from './outbox-ledger.ts';

/** Tables of an older format. They stay empty, but version 0.2.0 refuses a file without them. */
const unusedSql = `
CREATE TABLE incarnation (ordinal INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE row (
  ordinal INTEGER NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (ordinal, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE shipment (
  id INTEGER PRIMARY KEY, ordinal INTEGER NOT NULL, upto_n INTEGER NOT NULL, at_ms INTEGER NOT NULL
) STRICT;
`;

const placeSql = `
CREATE TABLE place (              -- one row
  id TEXT NOT NULL,               -- name of this database in the log
  taken INTEGER NOT NULL,         -- position before which all rows are counted here
  incarnation TEXT NOT NULL,      -- incarnation of the last counted row
  next_n INTEGER NOT NULL,        -- number of that incarnation's next row
  shipped INTEGER NOT NULL,       -- position before which all rows are on the usage log
  shipped_incarnation TEXT NOT NULL,
  shipped_n INTEGER NOT NULL,     -- number of the row at that position, if it is of that incarnation
  shipped_replica TEXT NOT NULL,
  spool INTEGER NOT NULL          -- unused, like the tables above
) STRICT;
CREATE TABLE mark (
  position INTEGER PRIMARY KEY,   -- first position with this numbering
  incarnation TEXT NOT NULL,
  n INTEGER NOT NULL,
  replica TEXT NOT NULL
) STRICT;
`;

const format = { version: 3, sql: unusedSql + ledgerSql + placeSql };

/** Place of a row in the row log, and the numbering by which the usage log identifies the row. */
export interface RowPlace {
  readonly position: number;
  /** Id of the process start during which the row was recorded. */
  readonly incarnation: string;
  /** Number of the row among those of its incarnation, which have no gaps. */
  readonly n: number;
  readonly replica: string;
}

/** Place in the row log up to which rows have been counted. */
export interface TakenPlace {
  readonly taken: number;
  readonly incarnation: string;
  readonly nextN: number;
}

/** Changes that one transaction writes. */
export interface Batch {
  readonly taken: TakenPlace;
  /** Sums to add to the counters, one entry per subject and period. */
  readonly entries: readonly CounterEntry[];
  readonly marks: readonly RowPlace[];
  readonly shipped: RowPlace;
  /** Position of the first record that the row log still contains. */
  readonly oldest: number;
}

export interface OpenedFile {
  readonly file: OutboxFile;
  /** Path to which a damaged file was moved, if there was one. */
  readonly quarantinedAs?: string;
}

/** Opens or creates the file. A damaged file is moved away and never written to again. Throws errors from `sqlite.ts`. */
export function openOutboxFile(path: string, nowMs: number): OpenedFile {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    return { file: new OutboxFile(path, nowMs) };
  } catch (error) {
    if (!(error instanceof DatabaseCorrupt)) throw error;
    const quarantinedAs = `${path}.damaged-${nowMs}`;
    for (const suffix of ['', '-wal', '-shm'])
      if (existsSync(path + suffix)) renameSync(path + suffix, quarantinedAs + suffix);
    return { file: new OutboxFile(path, nowMs), quarantinedAs };
  }
}

export class OutboxFile {
  /** Counters of the usage that this data folder has recorded. */
  readonly ledger: OutboxLedger;
  /** Id of this database. The headings in the row log contain the id of the database that counts their rows. */
  readonly id: string;
  taken: TakenPlace;
  shipped: RowPlace;
  /** Position in the row log before which all rows count as shipped, even after a power cut. */
  safelyShipped: number;
  /** Places in the row log from which rows are numbered anew, in order. */
  marks: readonly RowPlace[];
  readonly #path: string;
  readonly #db: Database;
  readonly #go: Statement;
  readonly #mark: Statement;
  readonly #forget: Statement<[number]>;

  constructor(path: string, nowMs: number) {
    this.#path = path;
    this.#db = openDatabase(path, { durability: 'full', cacheKilobytes: 4000 });
    try {
      createTables(this.#db, path, format);
      const { id, shipped, taken } = this.#readPlace();
      [this.id, this.shipped, this.taken] = [id, shipped, taken];
      this.safelyShipped = shipped.position;
      this.marks = prepare<RowPlace>(this.#db, 'SELECT * FROM mark ORDER BY position').all();
      this.#go = this.#db.prepare(`UPDATE place SET taken = ?, incarnation = ?, next_n = ?,
        shipped = ?, shipped_incarnation = ?, shipped_n = ?, shipped_replica = ?`);
      this.#mark = this.#db.prepare(
        'INSERT INTO mark (position, incarnation, n, replica) VALUES (@position, @incarnation, @n, @replica)',
      );
      this.#forget = this.#db.prepare('DELETE FROM mark WHERE position < ?');
      this.ledger = new OutboxLedger(this.#db, nowMs);
    } catch (error) {
      this.#db.close();
      throw mapSqliteError(error, path);
    }
  }

  startProcess(id: string): void {
    this.#try(() => this.ledger.startProcess(id));
  }

  /** Counts rows: in one transaction, adds their sums to the counters and moves the counted place in the row log forward. */
  write({ taken, entries, marks, shipped, oldest }: Batch, nowMs: number): void {
    const { taken: position, incarnation, nextN } = taken;
    const kept = this.marks.filter((_, at) => (this.marks[at + 1]?.position ?? Infinity) > oldest);
    const write = this.#db.transaction(() => {
      this.ledger.write(entries, nowMs);
      for (const mark of marks) this.#mark.run(mark);
      if (kept.length < this.marks.length) this.#forget.run(kept[0]?.position ?? position);
      this.#go.run(
        ...[position, incarnation, nextN],
        ...[shipped.position, shipped.incarnation, shipped.n, shipped.replica],
      );
    });
    const isSafe = marks.length > 0;
    this.#try(() => (isSafe ? write.immediate() : this.#withoutFlush(() => write.immediate())));
    if (isSafe) this.safelyShipped = shipped.position;
    [this.taken, this.shipped, this.marks] = [taken, shipped, [...kept, ...marks]];
    this.ledger.hold(entries, nowMs);
  }

  close(): void {
    this.#db.close();
  }

  /** Writes without flushing to disk. Only for what can be counted again from the row log, which is always flushed. */
  #withoutFlush(write: () => void): void {
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      write();
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
  }

  #readPlace(): Pick<OutboxFile, 'id' | 'shipped' | 'taken'> {
    this.#db
      .prepare("INSERT INTO place SELECT ?, 0, '', 1, 0, '', 1, '', 0 WHERE NOT EXISTS (SELECT * FROM place)")
      .run(randomUUID());
    const row = prepare<PlaceRow>(this.#db, 'SELECT * FROM place').get() as PlaceRow;
    const { id, taken, incarnation, next_n: nextN } = row;
    const shipped = {
      ...{ position: row.shipped, incarnation: row.shipped_incarnation },
      ...{ n: row.shipped_n, replica: row.shipped_replica },
    };
    return { id, taken: { taken, incarnation, nextN }, shipped };
  }

  #try<Result>(operation: () => Result): Result {
    try {
      return operation();
    } catch (error) {
      throw mapSqliteError(error, this.#path);
    }
  }
}

interface PlaceRow {
  readonly id: string;
  readonly taken: number;
  readonly incarnation: string;
  readonly next_n: number;
  readonly shipped: number;
  readonly shipped_incarnation: string;
  readonly shipped_n: number;
  readonly shipped_replica: string;
}
