/**
 * The file of the outbox, `outbox.db`: rows by incarnation and number, and which of them the log acknowledged.
 * Primary data: each transaction is on the disk when it returns. Numbers of an incarnation have no gaps, so its first,
 * last and last shipped number describe its rows without counting them.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import type { CounterEntry } from '../../schemas/limits.ts';
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

/** Acknowledged shipments removed by one transaction at most, so that none takes long. */
const trimmedAtOnceMax = 10;

const rowsSql = `
CREATE TABLE incarnation (
  ordinal INTEGER PRIMARY KEY,   -- order of the process starts
  id TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE row (
  ordinal INTEGER NOT NULL,
  n INTEGER NOT NULL,
  body TEXT NOT NULL,            -- the row as JSON
  PRIMARY KEY (ordinal, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE shipment (
  id INTEGER PRIMARY KEY,        -- order of the acknowledgements
  ordinal INTEGER NOT NULL,
  upto_n INTEGER NOT NULL,       -- rows up to this number are on the log
  at_ms INTEGER NOT NULL         -- when the log acknowledged them, ms since 1970
) STRICT;
`;

/** One row. */
const spoolSql = `
CREATE TABLE spool (
  id TEXT NOT NULL,              -- names this database in the spool
  taken INTEGER NOT NULL,        -- number of the last group whose rows are here
  incarnation TEXT NOT NULL,     -- of the process that wrote it
  next_n INTEGER NOT NULL        -- what the next row of that incarnation is numbered
) STRICT;`;

const format = { version: 2, sql: rowsSql + ledgerSql + spoolSql };

/** Rows of one process start. */
export interface Incarnation {
  readonly ordinal: number;
  readonly id: string;
  /** Number of the first row still in the file. */
  firstN: number;
  /** Rows up to this number are on the log. */
  shippedN: number;
  /** Number of the last row in the file; 0 before the first. */
  lastN: number;
}
export interface QueuedUsage {
  readonly incarnation: Incarnation;
  readonly n: number;
  readonly body: string;
}
/** What one transaction writes. */
export interface Batch {
  readonly rows: readonly QueuedUsage[];
  /** What the rows add to the counters, one entry a subject and period. */
  readonly entries: readonly CounterEntry[];
  readonly shipped: readonly Shipped[];
  /** Number of the last group of the spool whose rows these are, or were before. */
  readonly groupsTaken: number;
  /** Where the rows of this process continue. */
  readonly numbering: Numbering;
}
/** An incarnation, by its id, and the number of its next row. */
export interface Numbering {
  readonly id: string;
  readonly nextN: number;
}
export interface Shipped {
  readonly incarnation: Incarnation;
  readonly uptoN: number;
  readonly atMs: number;
}
/** Acknowledged rows are removed once they are older than `sinceMs` or the file has more than `rowsMax` rows. */
export interface Retention {
  readonly sinceMs: number;
  readonly rowsMax: number;
}

export interface OpenedFile {
  readonly file: OutboxFile;
  /** Where a damaged file was moved; its unshipped rows are not on the log. */
  readonly quarantinedAs?: string;
}

/** Opens or creates the file. A damaged one is renamed and never written again. Throws the errors of shared/runtime/sqlite.ts. */
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
  /** Oldest first. */
  readonly incarnations: Incarnation[];
  /** What this folder completed itself. */
  readonly ledger: OutboxLedger;
  /** Names this file in the spool. */
  readonly spoolId: string;
  /** Number of the last group of the spool whose rows are in this file. */
  groupsTaken: number;
  /** Of the process that wrote last. */
  readonly numbering: Numbering;
  readonly #path: string;
  readonly #db: Database;
  readonly #insert: Statement;
  readonly #read: Statement<[number, number, number], string>;
  readonly #ship: Statement;
  readonly #take: Statement<[number, string, number]>;
  readonly #oldest: Statement<[number], ShipmentRow>;

  constructor(path: string, nowMs: number) {
    this.#path = path;
    this.#db = openDatabase(path, { durability: 'full', cacheKilobytes: 4000 });
    try {
      this.#migrate();
      this.#insert = this.#db.prepare('INSERT INTO row VALUES (?, ?, ?)');
      this.#read = this.#db
        .prepare<[number, number, number], string>(
          'SELECT body FROM row WHERE ordinal = ? AND n > ? ORDER BY n LIMIT ?',
        )
        .pluck();
      this.#ship = this.#db.prepare('INSERT INTO shipment (ordinal, upto_n, at_ms) VALUES (?, ?, ?)');
      this.#take = this.#db.prepare('UPDATE spool SET taken = ?, incarnation = ?, next_n = ?');
      this.#oldest = this.#db.prepare<[number], ShipmentRow>('SELECT * FROM shipment ORDER BY id LIMIT ?');
      this.incarnations = this.#readIncarnations();
      const spool = this.#readSpool();
      this.spoolId = spool.id;
      this.groupsTaken = spool.taken;
      this.numbering = { id: spool.incarnation, nextN: spool.next_n };
      this.ledger = new OutboxLedger(this.#db, nowMs);
    } catch (error) {
      this.#db.close();
      throw mapSqliteError(error, path);
    }
  }

  /** Rows in the file, shipped or not. */
  get rows(): number {
    return this.incarnations.reduce((sum, { firstN, lastN }) => sum + lastN - firstN + 1, 0);
  }
  /** Rows not yet known to be on the log. */
  get unshipped(): number {
    return this.incarnations.reduce((sum, { shippedN, lastN }) => sum + lastN - shippedN, 0);
  }

  startIncarnation(id: string): Incarnation {
    return this.#try(() => {
      this.ledger.startProcess(id);
      return this.#add(id, 1);
    });
  }

  /** One of an earlier process that has rows left, from such a number on. */
  continueIncarnation({ id, nextN }: Numbering): Incarnation {
    return this.incarnations.find((each) => each.id === id) ?? this.#try(() => this.#add(id, nextN));
  }

  /**
   * Writes new rows with what they add to the counters, and acknowledgements, and removes rows by `retention`, in one
   * transaction that is on the disk on return.
   */
  write(batch: Batch, retention: Retention, nowMs: number): void {
    const { rows, entries, shipped, groupsTaken, numbering } = batch;
    const removed = this.#try(() =>
      this.#db
        .transaction(() => {
          for (const { incarnation, n, body } of rows) this.#insert.run(incarnation.ordinal, n, body);
          this.ledger.write(entries, nowMs);
          this.#take.run(groupsTaken, numbering.id, numbering.nextN);
          for (const { incarnation: of, uptoN, atMs } of shipped) this.#ship.run(of.ordinal, uptoN, atMs);
          return this.#trim(retention);
        })
        .immediate(),
    );
    this.groupsTaken = groupsTaken;
    for (const { incarnation, n } of rows) incarnation.lastN = n;
    for (const { ordinal, upto_n } of removed) this.#forget(ordinal, upto_n);
    this.ledger.hold(entries, nowMs);
  }

  /** Bodies of the rows behind number `n`, in order. */
  read({ ordinal }: Incarnation, n: number, rowsMax: number): string[] {
    return this.#try(() => this.#read.all(ordinal, n, rowsMax));
  }

  /** Marks rows from number `n` on as not shipped. False where some of them are no longer in the file. */
  markUnshipped(incarnation: Incarnation, n: number): boolean {
    if (n < incarnation.firstN) return false;
    this.#try(() =>
      this.#db.prepare('DELETE FROM shipment WHERE ordinal = ? AND upto_n >= ?').run(incarnation.ordinal, n),
    );
    incarnation.shippedN = Math.min(incarnation.shippedN, n - 1);
    return true;
  }

  close(): void {
    this.#db.close();
  }

  /** Removes rows acknowledged long ago, or the oldest acknowledged ones where there are too many. */
  #trim({ sinceMs, rowsMax }: Retention): readonly ShipmentRow[] {
    let excess = this.rows - rowsMax;
    const oldest = this.#oldest.all(trimmedAtOnceMax);
    const young = oldest.findIndex(({ at_ms, ordinal, upto_n }) => {
      if (at_ms >= sinceMs && excess <= 0) return true;
      excess -= this.#rowsUpTo(ordinal, upto_n);
      return false;
    });
    const removed = young === -1 ? oldest : oldest.slice(0, young);
    for (const { id, ordinal, upto_n } of removed) {
      this.#db.prepare('DELETE FROM row WHERE ordinal = ? AND n <= ?').run(ordinal, upto_n);
      this.#db.prepare('DELETE FROM shipment WHERE id = ?').run(id);
    }
    return removed;
  }

  #rowsUpTo(ordinal: number, uptoN: number): number {
    const incarnation = this.incarnations.find((each) => each.ordinal === ordinal);
    return incarnation ? Math.max(uptoN - incarnation.firstN + 1, 0) : 0;
  }

  #forget(ordinal: number, uptoN: number): void {
    const index = this.incarnations.findIndex((each) => each.ordinal === ordinal);
    const incarnation = this.incarnations[index];
    if (!incarnation) return;
    incarnation.firstN = Math.max(incarnation.firstN, uptoN + 1);
    const isPast = index < this.incarnations.length - 1;
    if (isPast && incarnation.firstN > incarnation.lastN) this.incarnations.splice(index, 1);
  }

  #migrate(): void {
    createTables(this.#db, this.#path, format);
    // Incarnations without rows need no entry.
    this.#db.exec('DELETE FROM incarnation WHERE ordinal NOT IN (SELECT ordinal FROM row)');
    this.#db.exec('DELETE FROM shipment WHERE ordinal NOT IN (SELECT ordinal FROM incarnation)');
  }

  #add(id: string, nextN: number): Incarnation {
    const { lastInsertRowid } = this.#db.prepare('INSERT INTO incarnation (id) VALUES (?)').run(id);
    const ordinal = Number(lastInsertRowid);
    const incarnation = { ordinal, id, firstN: nextN, shippedN: nextN - 1, lastN: nextN - 1 };
    this.incarnations.push(incarnation);
    return incarnation;
  }

  #readSpool(): SpoolRow {
    this.#db
      .prepare("INSERT INTO spool SELECT ?, 0, '', 1 WHERE NOT EXISTS (SELECT * FROM spool)")
      .run(randomUUID());
    return prepare<SpoolRow>(this.#db, 'SELECT * FROM spool').get() as SpoolRow;
  }

  #readIncarnations(): Incarnation[] {
    const found = this.#db.prepare<[], IncarnationRow>(incarnationsSql).all();
    return found.map((row) => ({ ...row, shippedN: Math.max(row.shippedN ?? 0, row.firstN - 1) }));
  }

  #try<Result>(operation: () => Result): Result {
    try {
      return operation();
    } catch (error) {
      throw mapSqliteError(error, this.#path);
    }
  }
}

type IncarnationRow = Omit<Incarnation, 'shippedN'> & { readonly shippedN: number | null };
interface SpoolRow {
  readonly id: string;
  readonly taken: number;
  readonly incarnation: string;
  readonly next_n: number;
}
interface ShipmentRow {
  readonly id: number;
  readonly ordinal: number;
  readonly upto_n: number;
  readonly at_ms: number;
}

const incarnationsSql = `
  SELECT ordinal, id,
    (SELECT min(n) FROM row WHERE row.ordinal = incarnation.ordinal) AS firstN,
    (SELECT max(n) FROM row WHERE row.ordinal = incarnation.ordinal) AS lastN,
    (SELECT max(upto_n) FROM shipment WHERE shipment.ordinal = incarnation.ordinal) AS shippedN
  FROM incarnation ORDER BY ordinal`;
