/** Completed requests that are kept for export: the latest ones in `usage.db`, all others in one file per day. */
import { readKeptRow, type UsageRow } from '../../schemas/records/usage.ts';
import { type Database, mapSqliteError } from '../../shared/runtime/sqlite.ts';
import { dayPath, openDay, removeDay } from './day-files.ts';
import type { DayRows, Kept } from './kept-tables.ts';
import type { MovedPart } from './move-rows.ts';
import { prepareRequests, type RequestBody, type RequestQuery, readRequests } from './request-table.ts';
import type { UsageStatements } from './usage-tables.ts';

/** Maximum number of day files that are open at once. An export reads the files one after the other. */
const openMax = 4;
/** Number of moved rows that are removed in one transaction, which takes a few milliseconds. */
const removedAtOnce = 500;

export interface KeptRequest {
  /** Row id, which increases from row to row. It also serves as the cursor of the next page. */
  readonly id: number;
  readonly row: UsageRow;
}

type OnUnreadable = (table: 'request' | 'parked' | 'day', key: string) => void;

interface OpenDay {
  readonly db: Database;
  readonly sql: ReturnType<typeof prepareRequests>;
}

export class KeptRows {
  readonly #db: Database;
  readonly #path: string;
  readonly #folder: string | undefined;
  readonly #sql: UsageStatements;
  readonly #onUnreadable: OnUnreadable;
  readonly #open = new Map<string, OpenDay>();
  #kept: Kept;
  /** Days that have a day file, in the order of their first rows. */
  #days: readonly DayRows[];

  /** `folder` contains the day files. It is undefined if all rows stay in the database. */
  constructor(
    {
      db,
      path,
      folder,
    }: { readonly db: Database; readonly path: string; readonly folder: string | undefined },
    sql: UsageStatements,
    onUnreadable: OnUnreadable = () => undefined,
  ) {
    this.#db = db;
    this.#path = path;
    this.#folder = folder;
    this.#sql = sql;
    this.#onUnreadable = onUnreadable;
    this.#kept = sql.kept.get() as Kept;
    this.#days = sql.days.all();
  }

  /** Days whose rows have been moved into files. */
  get days(): readonly string[] {
    return this.#days.map(({ day }) => day);
  }

  get newestDay(): string | undefined {
    return this.days.toSorted().at(-1);
  }

  /** First day from which all rows are kept, or undefined until the first search for old rows. */
  get completeFrom(): string | undefined {
    return this.#kept.from_day || undefined;
  }

  /**
   * Returns rows in the order in which they were folded, and fewer than `limit` only at the end. Rows that have not been
   * moved to day files yet are returned regardless of the day range.
   */
  requests(query: RequestQuery): KeptRequest[] {
    const { limit } = query;
    const kept: KeptRequest[] = [];
    for (let afterId = query.afterId ?? 0; ; ) {
      const left = limit - kept.length;
      const found = this.#read(query, afterId, left);
      for (const { id, body } of found) {
        const row = readKeptRow(body);
        if (row === undefined) this.#onUnreadable('request', String(id));
        else kept.push({ id, row });
        afterId = id;
      }
      if (found.length < left || kept.length === limit) return kept;
    }
  }

  /** Records that rows have been written to their day files, from which they are read from now on. */
  noteMoved({ moved, days }: MovedPart): void {
    this.#transaction(() => {
      for (const day of days) this.#sql.addDay.run(day);
      this.#sql.setMoved.run(moved);
    });
  }

  /** Removes up to 500 rows that have been moved into day files. Returns whether more may remain. */
  removeMoved(): boolean {
    return this.#sql.removeMoved.run(removedAtOnce).changes === removedAtOnce;
  }

  /** Removes the rows of all days before `day`. Returns the removed days. */
  removeBefore(day: string): readonly DayRows[] {
    if (day <= this.#kept.from_day) return [];
    const old = this.#days.filter((each) => each.day < day);
    this.#transaction(() => {
      this.#sql.setFromDay.run(day);
      this.#sql.removeDays.run(day);
    });
    for (const { day: ended } of old) {
      this.#open.get(ended)?.db.close();
      this.#open.delete(ended);
      if (this.#folder !== undefined) removeDay(this.#folder, ended);
    }
    return old;
  }

  close(): void {
    for (const { db } of this.#open.values()) db.close();
    this.#open.clear();
  }

  #read(query: RequestQuery, afterId: number, limit: number): RequestBody[] {
    let found: RequestBody[] = [];
    for (const day of this.#days) {
      if (day.last_id <= afterId || !isWithin(day.day, query)) continue;
      if ((found[limit - 1]?.id ?? Number.POSITIVE_INFINITY) < day.first_id) return found;
      const read = this.#readDay(day, query, afterId, limit);
      if (read.length > 0)
        found = [...found, ...read].sort((one, other) => one.id - other.id).slice(0, limit);
    }
    const left = limit - found.length;
    if (left === 0) return found;
    return [...found, ...readRequests(this.#sql, query, Math.max(afterId, this.#kept.moved), left)];
  }

  #readDay({ day, last_id: lastId }: DayRows, query: RequestQuery, afterId: number, limit: number) {
    try {
      const read = readRequests(this.#opened(day).sql, query, afterId, limit);
      return read.filter(({ id }) => id <= lastId);
    } catch {
      this.#onUnreadable('day', day);
      return [];
    }
  }

  #opened(day: string): OpenDay {
    const open = this.#open.get(day);
    if (open !== undefined) return open;
    const [oldest] = this.#open;
    if (this.#open.size >= openMax && oldest !== undefined) {
      oldest[1].db.close();
      this.#open.delete(oldest[0]);
    }
    const db = openDay(dayPath(this.#folder ?? '', day), this.#kept.id);
    const opened = { db, sql: prepareRequests(db) };
    this.#open.set(day, opened);
    return opened;
  }

  #transaction(change: () => void): void {
    try {
      this.#db.transaction(change).immediate();
    } catch (error) {
      throw mapSqliteError(error, this.#path);
    }
    this.#kept = this.#sql.kept.get() as Kept;
    this.#days = this.#sql.days.all();
  }
}

function isWithin(day: string, { from = '', to }: RequestQuery): boolean {
  return day >= from && (to === undefined || day < to);
}
