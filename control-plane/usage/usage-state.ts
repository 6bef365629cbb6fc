/** View of `usage.db` for one fold transaction. Collects changes and writes all of them at the end, or none if it fails. */
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
  /** Whether to keep every row for export, hourly sums, and the last use of keys. Otherwise only totals are kept. */
  readonly keepRows?: boolean;
  /** Called for each row that cannot be read and is therefore left out. */
  readonly onUnreadable?: (table: 'request' | 'parked' | 'day', key: string) => void;
}

/** Number of rows per incarnation whose hashes are kept, to compare repeats. A log record has at most that many rows. */
export const comparedRows = usageRecordRowsMax;
/** Hexadecimal digits per hash: enough to detect a difference, but few, because each log record rewrites all hashes. */
const hashDigits = 8;

function hashOf(text: string): string {
  return digest('sha256', text, 'hex').slice(0, hashDigits);
}

/** Hashes of an incarnation's last rows: those read from the database and those added in this transaction. */
class RowHashes {
  /** Number of the incarnation's row that was applied last. */
  n: number;
  readonly #stored: string;
  readonly #added: string[] = [];
  isChanged: boolean;

  /** `stored` is a result of `toStore`, or undefined if rows before the next one never arrived. */
  constructor(n: number, stored: string | null | undefined) {
    this.n = n;
    this.#stored = stored ?? '';
    this.isChanged = stored === undefined;
  }

  /** Returns the hash of row `n`, or undefined if the row never arrived or is not among the last `comparedRows`. */
  hashAt(n: number): string | undefined {
    const behind = this.n - n;
    if (behind < this.#added.length) return this.#added[this.#added.length - 1 - behind];
    const end = this.#stored.length - (behind - this.#added.length) * hashDigits;
    return end < hashDigits ? undefined : this.#stored.slice(end - hashDigits, end);
  }

  add(text: string): void {
    this.n++;
    this.isChanged = true;
    this.#added.push(hashOf(text));
  }

  /** Returns all hashes as one string, or null if there are none because rows never arrived. */
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
  /** Rows added to the totals, in the order in which they were applied. */
  readonly applied: UsageRow[] = [];
  readonly #sql: UsageStatements;
  readonly #options: KeepOptions;
  readonly #marks = new Map<string, RowHashes>();
  readonly #sums = new Map<string, Sum>();
  readonly #hourSums = new HourSums();
  readonly #keyUses = new KeyUses();
  /**
   * Number of parked rows per incarnation. Shared with the store, which reads the numbers again after a failed transaction.
   */
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

  /** Sets an incarnation's last row. `text` is the applied row, or null if the row never arrived. */
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
    // An unreadable row is treated like a row of an unknown version, so that the rows after it can be applied.
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

  /** Returns how many rows of an incarnation are parked, and the lowest row number among them. */
  parkedOf(incarnation: string): { count: number; lowest: number | null } {
    const count = this.#parkedCounts.get(incarnation) ?? 0;
    return { count, lowest: count > 0 ? (this.#sql.parkedLowest.get(incarnation)?.n ?? null) : null };
  }

  /** Adds a row to the totals, and to the kept rows and hourly sums if they are kept. */
  count(row: UsageRow): void {
    this.applied.push(row);
    const { organisation, period } = row;
    this.#addTokens({ ...row, ...ownerOf(row) });
    if (!this.#options.keepRows) return;
    this.#sql.addRequest.run(organisation, period, JSON.stringify(row));
    this.#hourSums.add(row);
    this.#keyUses.add(row);
  }

  /** Writes the collected changes, in the transaction that also writes the fold's position. */
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
