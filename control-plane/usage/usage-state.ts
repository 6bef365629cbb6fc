/** The fold's view of `usage.db` in one transaction: collects changes and writes them at the end. None survives a failure. */
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

/** Number of each incarnation's last rows whose hashes are kept: as many as a record can have. A repeat must be equal. */
export const comparedRows = usageRecordRowsMax;
/** Hexadecimal digits of a hash: enough for an alarm, and few, because each record rewrites all of an incarnation's. */
const hashDigits = 8;

function hashOf(text: string): string {
  return digest('sha256', text, 'hex').slice(0, hashDigits);
}

/** Hashes of an incarnation's last rows: the stored ones, and those that this transaction adds. */
class RowHashes {
  /** Number of the last applied row. */
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

  /** Hash of the row with this number, or undefined if it never arrived or is not among the last `comparedRows`. */
  hashAt(n: number): string | undefined {
    const behind = this.n - n;
    if (behind < this.#added.length) return this.#added[this.#added.length - 1 - behind];
    const end = this.#stored.length - (behind - this.#added.length) * hashDigits;
    return end < hashDigits ? undefined : this.#stored.slice(end - hashDigits, end);
  }

  /** Adds the hash of the next row. */
  add(text: string): void {
    this.n++;
    this.isChanged = true;
    this.#added.push(hashOf(text));
  }

  /** Returns null if there are no hashes, as after rows that never arrived. */
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
  /** Numbers of parked rows by incarnation. Shared with the store, which reads them again after a failed transaction. */
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

  /** `text` is the applied row, or null if it never arrived. */
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
    // An unreadable row counts like one of an unknown version, so that the rows after it are applied.
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

  /** Number of an incarnation's parked rows, and the lowest row number among them. */
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
