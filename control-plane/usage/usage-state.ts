/**
 * The fold's view of `usage.db` within one transaction: reads through to the tables, collects changes, and writes them once
 * at the end. Nothing collected here outlives a failed transaction.
 */
import { hash as digest } from 'node:crypto';
import {
  type ReadUsageRow,
  readUsageRow,
  type UsageRow,
  usageRecordRowsMax,
} from '../../schemas/records/usage.ts';
import { HourSums, ownerOf, writeHourSums } from './hour-sums.ts';
import { KeyUses, writeKeyUses } from './key-use.ts';
import type { UsageStatements } from './usage-tables.ts';

interface Sum {
  readonly row: UsageRow & { readonly organisation: string; readonly period: string };
  promptTokens: number;
  completionTokens: number;
  requests: number;
}

export interface KeepOptions {
  /** Keeps every row for export, sums by hour and the uses of keys, in addition to the totals. */
  readonly keepRows?: boolean;
  /** Called with each row of a table that cannot be read, which is left out. */
  readonly onUnreadable?: (table: 'request' | 'parked' | 'day', key: string) => void;
}

/** Rows of each incarnation whose hashes are kept, those of the largest record: a repeat of one must be equal to it. */
export const comparedRows = usageRecordRowsMax;
/** Hexadecimal digits of a hash: enough for an alarm, and few, because all of an incarnation are written with each of its records. */
const hashDigits = 8;

function hashOf(text: string): string {
  return digest('sha256', text, 'hex').slice(0, hashDigits);
}

/** The last rows of an incarnation: their hashes as they are stored, and those of rows that this transaction adds. */
class RowHashes {
  /** Of the last row that was applied. */
  n: number;
  readonly #stored: string;
  readonly #added: string[] = [];
  isChanged: boolean;

  /** `stored`: what `toStore` gave; undefined where rows before the next one never arrived. */
  constructor(n: number, stored: string | null | undefined) {
    this.n = n;
    this.#stored = stored ?? '';
    this.isChanged = stored === undefined;
  }

  /** Of the row with this number; undefined where it never arrived, or is not among the last `comparedRows`. */
  hashAt(n: number): string | undefined {
    const behind = this.n - n;
    if (behind < this.#added.length) return this.#added[this.#added.length - 1 - behind];
    const end = this.#stored.length - (behind - this.#added.length) * hashDigits;
    return end < hashDigits ? undefined : this.#stored.slice(end - hashDigits, end);
  }

  /** Of the row that comes next. */
  add(text: string): void {
    this.n++;
    this.isChanged = true;
    this.#added.push(hashOf(text));
  }

  /** Null where there is none, as after rows that never arrived. */
  toStore(): string | null {
    const all = this.#stored + this.#added.join('');
    return all === '' ? null : all.slice(-comparedRows * hashDigits);
  }
}

function parsedRow(body: string): ReadUsageRow | undefined {
  try {
    return readUsageRow(JSON.parse(body));
  } catch {
    return undefined;
  }
}

export class UsageState {
  /** Rows added to the totals, in the order of their application. */
  readonly applied: UsageRow[] = [];
  readonly #sql: UsageStatements;
  readonly #options: KeepOptions;
  readonly #marks = new Map<string, RowHashes>();
  readonly #sums = new Map<string, Sum>();
  readonly #hourSums = new HourSums();
  readonly #keyUses = new KeyUses();
  /** Rows parked, by incarnation. Shared with the store, which reads it again after a failed transaction. */
  readonly #parkedCounts: Map<string, number>;

  constructor(sql: UsageStatements, parkedCounts: Map<string, number>, options: KeepOptions) {
    this.#sql = sql;
    this.#parkedCounts = parkedCounts;
    this.#options = options;
  }

  mark(incarnation: string): RowHashes | undefined {
    const open = this.#marks.get(incarnation);
    if (open !== undefined) return open;
    const stored = this.#sql.mark.get(incarnation);
    if (stored === undefined) return undefined;
    const mark = new RowHashes(stored.n, stored.hash);
    this.#marks.set(incarnation, mark);
    return mark;
  }

  /** `text`: of the row applied; null where it never arrived. */
  setMark(incarnation: string, n: number, text: string | null): void {
    let mark = this.mark(incarnation);
    if (mark?.n !== n - 1 || text === null) {
      mark = new RowHashes(text === null ? n : n - 1, undefined);
      this.#marks.set(incarnation, mark);
    }
    if (text !== null) mark.add(text);
  }

  hash(text: string): string {
    return hashOf(text);
  }

  parked(incarnation: string, n: number): ReadUsageRow | undefined {
    const found = this.#sql.parked.get(incarnation, n);
    if (found === undefined) return undefined;
    const read = parsedRow(found.body);
    if (read !== undefined) return read;
    this.#options.onUnreadable?.('parked', `${incarnation} ${n}`);
    // It takes its place like a row of a version that this build does not know: the rows behind it count.
    return { incarnation, n, text: found.body };
  }

  park({ incarnation, n, text }: ReadUsageRow): void {
    this.#sql.park.run(incarnation, n, text);
    this.#parkedCounts.set(incarnation, (this.#parkedCounts.get(incarnation) ?? 0) + 1);
  }

  unpark(incarnation: string, n: number): void {
    this.#sql.unpark.run(incarnation, n);
    const rest = (this.#parkedCounts.get(incarnation) ?? 0) - 1;
    if (rest > 0) this.#parkedCounts.set(incarnation, rest);
    else this.#parkedCounts.delete(incarnation);
  }

  /** How many rows of an incarnation are parked, and the lowest number among them. */
  parkedOf(incarnation: string): { count: number; lowest: number | null } {
    const count = this.#parkedCounts.get(incarnation) ?? 0;
    return { count, lowest: count > 0 ? (this.#sql.parkedLowest.get(incarnation)?.n ?? null) : null };
  }

  /** Adds a row to the totals. */
  count(row: UsageRow): void {
    this.applied.push(row);
    const { organisation, period } = row;
    this.#addTokens({ ...row, ...ownerOf(row) });
    if (!this.#options.keepRows) return;
    this.#sql.addRequest.run(organisation, period, JSON.stringify(row));
    this.#hourSums.add(row);
    this.#keyUses.add(row);
  }

  /** Writes the collected changes, in the caller's transaction with the position. */
  write(): void {
    for (const [incarnation, mark] of this.#marks)
      if (mark.isChanged) this.#sql.setMark.run(incarnation, mark.n, mark.toStore());
    for (const { row, promptTokens, completionTokens, requests } of this.#sums.values()) {
      const { organisation, period, draw, model } = row;
      this.#sql.addTotal.run(organisation, period, draw, model, promptTokens, completionTokens, requests);
    }
    writeHourSums(this.#sql, this.#hourSums.all());
    writeKeyUses(this.#sql, this.#keyUses.all());
  }

  #addTokens(row: Sum['row']): void {
    const key = `${row.organisation} ${row.period} ${row.draw} ${row.model}`;
    const sum = this.#sums.get(key) ?? { row, promptTokens: 0, completionTokens: 0, requests: 0 };
    sum.promptTokens += row.promptTokens;
    sum.completionTokens += row.completionTokens;
    sum.requests++;
    this.#sums.set(key, sum);
  }
}
