/**
 * `decisions.db`: a ring of the decisions of the last day, bounded in bytes. Derived and disposable: a file that is damaged
 * or of another version is deleted and begun again. Nothing waits for the disk.
 * A group of decisions is one row, compressed: a row and an index entry of each cost four times the processor time, and four
 * times the bytes. Who asks for one decision by its id pays with a search through all ids.
 */
import { existsSync, rmSync, statSync } from 'node:fs';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { dayMs } from '../../schemas/durations.ts';
import type { RecordedRequest } from '../../schemas/request-record.ts';
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
import { type DecisionGroup, idBytes, idCell, idPrefix, timeCell } from './decision-group.ts';

const format = {
  version: 3,
  sql: `
CREATE TABLE decisions (
  id INTEGER PRIMARY KEY,
  count INTEGER NOT NULL,
  last_at INTEGER NOT NULL,  -- the time of the latest decision, ms since 1970
  cells ANY NOT NULL         -- JSON list of decisions without their ids; a blob where it is deflated
) STRICT;
CREATE TABLE decision_ids (
  id INTEGER PRIMARY KEY,    -- of the group
  req BLOB NOT NULL          -- 16 bytes a decision, in the order of the group
) STRICT;
`,
};

/** The fastest: the text repeats itself so much that the best would save a fifth more for three times the time. */
const deflateLevel = 1;
/** Shorter texts, of a decision or two, are kept as they are: to begin a compression costs more than these bytes. */
const deflatedFrom = 512;

export interface RingBounds {
  readonly ageMsMax: number;
  readonly bytesMax: number;
}

const ringBoundsDefault: RingBounds = { ageMsMax: dayMs, bytesMax: 256 * 1024 * 1024 };

/** A decision has less than a kilobyte of text, and a group some hundreds. */
const textBytesMax = 8 * 1024 * 1024;

/** Groups deleted at once, where the file is at its bound, and how often in one write. */
const groupsTrimmedAtOnce = 20;
const trimStepsMax = 50;

export class DecisionFile {
  readonly #db: Database;
  readonly #bounds: RingBounds;
  readonly #insert: Statement;
  readonly #insertIds: Statement;
  readonly #with: Statement<[Buffer], IdsRow>;
  readonly #group: Statement<[number], GroupRow>;
  readonly #next: Statement<[number, number], GroupRow>;
  readonly #oldest: Statement<[], { id: number; last_at: number }>;
  readonly #trim: readonly Statement[];

  constructor(path: string, bounds: RingBounds = ringBoundsDefault) {
    const db = openRing(path);
    this.#db = db;
    this.#bounds = bounds;
    this.#insert = db.prepare('INSERT INTO decisions (count, last_at, cells) VALUES (?, ?, ?)');
    this.#insertIds = db.prepare('INSERT INTO decision_ids (id, req) VALUES (?, ?)');
    this.#with = prepare(db, 'SELECT id, req FROM decision_ids WHERE instr(req, ?) > 0 ORDER BY id DESC');
    this.#group = prepare(
      db,
      'SELECT id, req, cells FROM decisions JOIN decision_ids USING (id) WHERE id = ?',
    );
    this.#next = prepare(
      db,
      `SELECT id, req, cells FROM decisions JOIN decision_ids USING (id)
       WHERE id > ? AND last_at >= ? ORDER BY id LIMIT 1`,
    );
    this.#oldest = prepare(db, 'SELECT id, last_at FROM decisions ORDER BY id LIMIT 1');
    this.#trim = ['decisions', 'decision_ids'].map((table) =>
      db.prepare(`DELETE FROM ${table} WHERE id < ?`),
    );
  }

  /** In one transaction; throws what the driver throws, with nothing written. */
  write(group: DecisionGroup, nowMs: number): void {
    const { count, lastMs, ids, text } = group;
    const packed =
      text.length < deflatedFrom
        ? Buffer.from(text.buffer).toString()
        : deflateRawSync(text, { level: deflateLevel });
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      const { lastInsertRowid } = this.#insert.run(count, lastMs, packed);
      this.#insertIds.run(lastInsertRowid, ids);
      this.#removeOld(nowMs - this.#bounds.ageMsMax);
      this.#db.exec('COMMIT');
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  /** SQLite searches all ids, the latest first. */
  find(req: string): RecordedRequest | undefined {
    const wanted = Buffer.from(req.slice(idPrefix.length), 'hex');
    if (wanted.length !== idBytes) return undefined;
    for (const { id, req: ids } of this.#with.iterate(wanted)) {
      const at = indexIn(ids, wanted);
      if (at === -1) continue;
      const group = this.#group.get(id);
      return group && readableOf(group)[at];
    }
    return undefined;
  }

  /** Whole groups, oldest first, until there are `limit` decisions; `after` is the id of the last one read. */
  page(after: number, sinceMs: number, limit: number): { readonly id: number; readonly cells: string }[] {
    const found: { id: number; cells: string }[] = [];
    for (let from = after; found.length < limit; ) {
      const group = this.#next.get(from, sinceMs);
      if (group === undefined) break;
      from = group.id;
      for (const cells of readableOf(group))
        if (Number(cells[timeCell]) >= sinceMs) found.push({ id: from, cells: JSON.stringify(cells) });
    }
    return found;
  }

  /** Of the pages in use. */
  bytes(): number {
    const value = (name: string) => Number(this.#db.pragma(name, { simple: true }));
    return (value('page_count') - value('freelist_count')) * value('page_size');
  }

  count(): number {
    return Number(this.#db.prepare('SELECT total(count) FROM decisions').pluck().get());
  }

  close(): void {
    this.#db.close();
  }

  #removeBefore(id: number): void {
    for (const statement of this.#trim) statement.run(id);
  }

  /** Some groups with each write, from the oldest on: an index on the age would cost more. */
  #removeOld(keptFromMs: number): void {
    const oldest = this.#oldest.get();
    if (oldest === undefined) return;
    let before = oldest.id;
    if (oldest.last_at < keptFromMs) before = this.#next.get(0, keptFromMs)?.id ?? before;
    if (before > oldest.id) this.#removeBefore(before);
    // The oldest groups may be small and the new ones large.
    for (let steps = 0; this.bytes() > this.#bounds.bytesMax && steps < trimStepsMax; steps++)
      this.#removeBefore((this.#oldest.get()?.id ?? 0) + groupsTrimmedAtOnce);
  }
}

interface IdsRow {
  readonly id: number;
  readonly req: Buffer;
}

interface GroupRow extends IdsRow {
  readonly cells: Buffer | string;
}

/** Which of the ids it is; -1: none. */
function indexIn(ids: Buffer, wanted: Buffer): number {
  let at = ids.indexOf(wanted);
  while (at % idBytes > 0) at = ids.indexOf(wanted, at + 1);
  return at === -1 ? -1 : at / idBytes;
}

/** A group that is damaged costs its own decisions, and none of the others. */
function readableOf(group: GroupRow): RecordedRequest[] {
  try {
    return decisionsOf(group);
  } catch {
    return [];
  }
}

function decisionsOf({ req, cells }: GroupRow): RecordedRequest[] {
  const text =
    typeof cells === 'string' ? cells : inflateRawSync(cells, { maxOutputLength: textBytesMax }).toString();
  const lists = JSON.parse(text) as unknown[][];
  lists.forEach((list, index) => {
    list[idCell] = idPrefix + req.toString('hex', index * idBytes, (index + 1) * idBytes);
  });
  return lists as unknown as RecordedRequest[];
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
  const db = openDatabase(path, { durability: 'process', cacheKilobytes: 1000 });
  try {
    createTables(db, path, format);
    db.prepare('SELECT cells, req FROM decisions JOIN decision_ids USING (id) LIMIT 1').get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
