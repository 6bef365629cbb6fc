/**
 * `decisions.db`: a ring of the decisions of the last day, bounded in bytes. Derived and disposable: a file that is damaged
 * or of another version is deleted and begun again. Nothing waits for the disk.
 */
import { existsSync, rmSync, statSync } from 'node:fs';
import {
  createTables,
  type Database,
  DatabaseBusy,
  DatabaseUnwritable,
  mapSqliteError,
  openDatabase,
  prepare,
  type Statement,
} from '../../shared/runtime/sqlite.ts';
import type { CompactDecision } from './compact.ts';

const format = {
  version: 1,
  sql: `
CREATE TABLE decision (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,    -- ms since 1970
  req BLOB NOT NULL,
  cells TEXT NOT NULL     -- JSON list
) STRICT;
CREATE INDEX decision_by_req ON decision (req);
`,
};

export interface RingBounds {
  readonly ageMsMax: number;
  readonly bytesMax: number;
}

const ringBoundsDefault: RingBounds = { ageMsMax: 24 * 3600 * 1000, bytesMax: 256 * 1024 * 1024 };

/** Rows deleted at once, where the file is at its bound. */
const rowsTrimmedAtOnce = 5_000;

export class DecisionFile {
  readonly #db: Database;
  readonly #bounds: RingBounds;
  readonly #insert: Statement;
  readonly #byReq: Statement<[Buffer], Row>;
  readonly #page: Statement<[number, number, number], Row & { readonly id: number }>;
  readonly #oldest: Statement<[], { at: number }>;
  readonly #trimAge: Statement;
  readonly #trimOldest: Statement;

  constructor(path: string, bounds: RingBounds = ringBoundsDefault) {
    this.#db = openRing(path);
    this.#bounds = bounds;
    this.#insert = this.#db.prepare('INSERT INTO decision (at, req, cells) VALUES (?, ?, ?)');
    this.#byReq = prepare(
      this.#db,
      'SELECT at, req, cells FROM decision WHERE req = ? ORDER BY id DESC LIMIT 1',
    );
    this.#page = prepare(
      this.#db,
      'SELECT id, at, req, cells FROM decision WHERE id > ? AND at >= ? ORDER BY id LIMIT ?',
    );
    this.#oldest = prepare(this.#db, 'SELECT at FROM decision ORDER BY id LIMIT 1');
    // Only the oldest are looked at: without an index on the age, each write would read the whole file otherwise.
    this.#trimAge = this.#db.prepare(
      'DELETE FROM decision WHERE id IN (SELECT id FROM (SELECT id, at FROM decision ORDER BY id LIMIT ?) WHERE at < ?)',
    );
    this.#trimOldest = this.#db.prepare(
      'DELETE FROM decision WHERE id IN (SELECT id FROM decision ORDER BY id LIMIT ?)',
    );
  }

  /** In one transaction; throws what the driver throws, with nothing written. */
  write(decisions: readonly CompactDecision[], nowMs: number): void {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      for (const cells of decisions) {
        const [version, req, at, ...rest] = cells;
        // The id and the time have columns of their own.
        this.#insert.run(at, Buffer.from(String(req), 'hex'), JSON.stringify([version, 0, 0, ...rest]));
      }
      const keptFromMs = nowMs - this.#bounds.ageMsMax;
      if ((this.#oldest.get()?.at ?? keptFromMs) < keptFromMs)
        this.#trimAge.run(rowsTrimmedAtOnce, keptFromMs);
      if (this.bytes() > this.#bounds.bytesMax) this.#trimOldest.run(rowsTrimmedAtOnce);
      this.#db.exec('COMMIT');
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  find(req: string): CompactDecision | undefined {
    const row = this.#byReq.get(Buffer.from(req.slice('req_'.length), 'hex'));
    return row && wholeOf(row);
  }

  /** Oldest first; `after` is the id of the last one read. */
  page(after: number, sinceMs: number, limit: number): { readonly id: number; readonly cells: string }[] {
    const rows = this.#page.all(after, sinceMs, limit);
    return rows.map((row) => ({ id: row.id, cells: JSON.stringify(wholeOf(row)) }));
  }

  /** Of the pages in use. */
  bytes(): number {
    const value = (name: string) => Number(this.#db.pragma(name, { simple: true }));
    return (value('page_count') - value('freelist_count')) * value('page_size');
  }

  count(): number {
    return Number(this.#db.prepare('SELECT count(*) FROM decision').pluck().get());
  }

  close(): void {
    this.#db.close();
  }
}

interface Row {
  readonly at: number;
  readonly req: Buffer;
  readonly cells: string;
}

/** With id and time; rows of earlier builds have them in the list too. */
function wholeOf({ at, req, cells }: Row): CompactDecision {
  const [version, , , ...rest] = JSON.parse(cells) as CompactDecision;
  return [version ?? null, req.toString('hex'), at, ...rest];
}

function openRing(path: string): Database {
  try {
    return opened(path);
  } catch (error) {
    if (!existsSync(path) || !statSync(path).isFile()) throw error;
    // A new file would have no more room on the disk.
    const known = mapSqliteError(error, path);
    if (known instanceof DatabaseUnwritable || known instanceof DatabaseBusy) throw known;
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    return opened(path);
  }
}

function opened(path: string): Database {
  const db = openDatabase(path, { durability: 'process' });
  try {
    createTables(db, path, format);
    db.prepare('SELECT cells FROM decision LIMIT 1').get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
