/**
 * Looks for damage in `usage.db` and its day files: corrupt database pages, unreadable rows, and sums that differ from the
 * rows that they add up. The files have no digest, so nothing else would detect a flipped bit in a number. A check reads all
 * files, on its own thread. Each organisation and each day is compared in one read transaction.
 */
import { hourMs } from '../../schemas/durations.ts';
import { readKeptRow } from '../../schemas/records/usage.ts';
import { type Database, mapSqliteError, openDatabase, prepare } from '../../shared/runtime/sqlite.ts';
import { dayFolderOf, dayPath, openDay } from './day-files.ts';
import { firstHourOf, hoursOfDay, ownerOf } from './hour-sums.ts';
import type { DayRows, Kept } from './kept-tables.ts';
import type { RequestBody } from './request-table.ts';

export interface UsageFault {
  /** Damaged table, followed by the row if that is known. */
  readonly object: string;
  readonly text: string;
  /** Day on which the number of requests in the hourly sums (`counted`) differs from the number of kept rows. */
  readonly differs?: { readonly day: string; readonly counted: number; readonly rows: number };
}

/** Maximum number of faults that are listed, because a file that has lost a page has thousands. */
export const usageFaultsMax = 20;
const textMax = 200;
export const unreadableText = 'this row cannot be read, and is in no export';
export const unreadableDayText = 'the file of this day cannot be read, and its rows are in no export';

/**
 * Checks the files read-only and returns all faults. Throws only errors other than damage, such as a failure to open a file.
 */
export function checkUsage(path: string): readonly UsageFault[] {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    const faults = pageFaults(db, 'usage.db');
    // If pages are damaged, stops here, because their rows are unreadable and reading them may fail.
    return faults.length > 0 ? faults : new UsageCheck(db, dayFolderOf(path)).faults();
  } catch (error) {
    // All SQL statements are valid, so this error means that the file contains other tables.
    if (error instanceof Error && 'code' in error && error.code === 'SQLITE_ERROR')
      return [
        {
          object: 'usage.db',
          text: `its tables are not those of Headgate: ${error.message}`.slice(0, textMax),
        },
      ];
    const mapped = mapSqliteError(error, path);
    if (!(mapped instanceof Error) || mapped.name !== 'DatabaseCorrupt') throw mapped;
    return [{ object: 'usage.db', text: mapped.message.slice(0, textMax) }];
  } finally {
    db.close();
  }
}

function pageFaults(db: Database, object: string): readonly UsageFault[] {
  const found = prepare<{ readonly quick_check: string }>(db, `PRAGMA quick_check(${usageFaultsMax})`).all();
  return found
    .filter(({ quick_check: text }) => text !== 'ok')
    .map(({ quick_check: text }) => ({ object, text: text.slice(0, textMax) }));
}

/** Sums for one organisation, capacity and model. */
interface Amounts {
  readonly organisation: string;
  readonly what: string;
  promptTokens: number;
  completionTokens: number;
  requests: number;
}

const amountsSql =
  'sum(prompt_tokens) AS promptTokens, sum(completion_tokens) AS completionTokens, sum(requests) AS requests';
/** SQL that finds totals that differ from the sum of their hours. Either the total or its hours may be missing. */
const differentSql = `
  WITH both (organisation, period, draw, model, p, c, r) AS (
    SELECT organisation, period, draw, model, prompt_tokens, completion_tokens, requests FROM total
    UNION ALL SELECT organisation, period, draw, model, -prompt_tokens, -completion_tokens, -requests FROM hour_sum)
  SELECT organisation, period, draw, model FROM both GROUP BY organisation, period, draw, model
  HAVING sum(p) <> 0 OR sum(c) <> 0 OR sum(r) <> 0 LIMIT ${usageFaultsMax}`;

/** Returns the UTC day of an hour, or undefined if a flipped bit made the hour invalid. */
function dayOfHour(hour: number): string | undefined {
  const at = new Date(hour * hourMs);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString().slice(0, 10);
}

class UsageCheck {
  readonly #db: Database;
  readonly #folder: string;
  readonly #faults: UsageFault[] = [];

  constructor(db: Database, folder: string) {
    this.#db = db;
    this.#folder = folder;
  }

  faults(): readonly UsageFault[] {
    const differing = prepare<Record<'organisation' | 'period' | 'draw' | 'model', string>>(
      this.#db,
      differentSql,
    );
    for (const { organisation, period, draw, model } of differing.all())
      this.#add({
        object: organisation,
        text: `in the period from ${period} the total of ${draw} ${model} is not the sum of its hours`,
      });
    for (const day of this.#days()) {
      if (this.#faults.length >= usageFaultsMax) break;
      this.#checkDay(day);
    }
    return this.#faults.slice(0, usageFaultsMax);
  }

  #kept(): Kept {
    return prepare<Kept>(this.#db, 'SELECT * FROM kept').get() as Kept;
  }

  /** Returns the days that have rows or sums, except days whose rows are no longer kept. */
  #days(): string[] {
    const { from_day: from } = this.#kept();
    const files = prepare<DayRows>(this.#db, 'SELECT * FROM day').all();
    const hours = prepare<{ hour: number }, [number]>(
      this.#db,
      'SELECT DISTINCT hour FROM hour_sum WHERE hour >= ?',
    ).all(from === '' ? 0 : firstHourOf(from));
    const ofHours = hours.flatMap(({ hour }) => dayOfHour(hour) ?? []);
    return [...new Set([...files.map(({ day }) => day), ...ofHours])].sort();
  }

  #checkDay(day: string): void {
    const before = this.#faults.length;
    const rows = new Map<string, Amounts>();
    // The day's file is read after this transaction, because a long transaction would make the write-ahead log grow.
    this.#db.exec('BEGIN');
    const { id, moved } = this.#kept();
    const file = this.#fileOf(day);
    const latest = prepare<RequestBody, [number]>(this.#db, 'SELECT id, body FROM request WHERE id > ?');
    this.#addRows(latest.iterate(moved), day, rows);
    const sums = this.#sumsOf(day);
    this.#db.exec('COMMIT');
    if (file !== undefined) this.#addFile(file, id, rows);
    if (this.#faults.length === before) this.#compare(day, sums, rows);
  }

  #fileOf(day: string): DayRows | undefined {
    return prepare<DayRows, [string]>(this.#db, 'SELECT * FROM day WHERE day = ?').get(day);
  }

  #sumsOf(day: string): readonly Amounts[] {
    const from = firstHourOf(day);
    return prepare<Amounts, [number, number]>(
      this.#db,
      `SELECT organisation, draw || ' ' || model AS what, ${amountsSql} FROM hour_sum
       WHERE hour >= ? AND hour < ? GROUP BY organisation, draw, model`,
    ).all(from, from + hoursOfDay);
  }

  #addFile({ day, last_id: lastId }: DayRows, owner: string, sums: Map<string, Amounts>): void {
    let db: Database | undefined;
    try {
      db = openDay(dayPath(this.#folder, day), owner);
      const faults = pageFaults(db, `day ${day}`);
      for (const fault of faults) this.#add(fault);
      const rows = prepare<RequestBody, [number]>(db, 'SELECT id, body FROM request WHERE id <= ?');
      if (faults.length === 0) this.#addRows(rows.iterate(lastId), day, sums);
    } catch {
      // Ignores the error if the file has just been removed because its day is no longer kept.
      if (this.#fileOf(day) !== undefined) this.#add({ object: `day ${day}`, text: unreadableDayText });
    } finally {
      db?.close();
    }
  }

  /** Adds up the readable rows of a day. Each unreadable row becomes a fault. */
  #addRows(rows: Iterable<RequestBody>, day: string, sums: Map<string, Amounts>): void {
    for (const { id, body } of rows) {
      const row = readKeptRow(body);
      if (row === undefined) {
        this.#add({ object: `request ${id}`, text: unreadableText });
        if (this.#faults.length >= usageFaultsMax) return;
      } else if (row.at.slice(0, 10) === day) {
        const { organisation } = ownerOf(row);
        const what = `${row.draw} ${row.model}`;
        const key = `${organisation} ${what}`;
        const sum = sums.get(key) ?? {
          organisation,
          what,
          promptTokens: 0,
          completionTokens: 0,
          requests: 0,
        };
        sum.promptTokens += row.promptTokens;
        sum.completionTokens += row.completionTokens;
        sum.requests++;
        sums.set(key, sum);
      }
    }
  }

  #compare(day: string, sums: readonly Amounts[], rows: Map<string, Amounts>): void {
    for (const sum of sums) {
      const key = `${sum.organisation} ${sum.what}`;
      const ofRows = rows.get(key);
      rows.delete(key);
      const isEqual =
        ofRows?.requests === sum.requests &&
        ofRows.promptTokens === sum.promptTokens &&
        ofRows.completionTokens === sum.completionTokens;
      if (!isEqual) this.#differ(day, sum, sum.requests, ofRows?.requests ?? 0);
    }
    for (const sum of rows.values()) this.#differ(day, sum, 0, sum.requests);
  }

  #differ(day: string, { organisation: object, what }: Amounts, counted: number, rows: number): void {
    this.#add({
      object,
      text: `on ${day} the sum of ${what} differs from its rows`,
      ...(counted !== rows && { differs: { day, counted, rows } }),
    });
  }

  #add(fault: UsageFault): void {
    // The latest rows are read again for each day, so the fault may already be listed.
    if (this.#faults.some(({ object, text }) => object === fault.object && text === fault.text)) return;
    this.#faults.push({ ...fault, text: fault.text.slice(0, textMax) });
  }
}
