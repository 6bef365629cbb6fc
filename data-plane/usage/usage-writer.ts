/**
 * Writes usage rows to the row log. Runs on the main thread, but never waits for the disk. Rows that are recorded during a
 * write go into the next write. Each message to the usage worker wakes its thread, so the worker is told of new rows only ten
 * times a second, or at once if an allowance is nearly used up.
 */
import type { SegmentLog } from './segment-log.ts';
import { append } from './usage-log.ts';
import type { AccountLimit, UsageWorkerRequest } from './worker-messages.ts';

/** Time in ms for which rows are collected into a group. Even with the timer's delay, a row is written within 10 ms. */
const groupMs = 7;
/** After so many ms or rows, the usage worker is told of the written rows, which it then counts in one transaction. */
const gatherMs = 100;
const gatherRowsMax = 500;
/** Pause in ms after a write that failed. */
const retryMs = 1_000;

export interface UsageWriterOptions {
  readonly log: SegmentLog;
  readonly onError: (error: Error) => void;
}

export class UsageWriter {
  /** Number of rows of this process that are in the row log. */
  keptRows = 0;
  readonly #options: UsageWriterOptions;
  /** Position of this process's first row in the row log. */
  #from: number | undefined;
  /** Rows that no write contains yet, as text. */
  #rows = '';
  #count = 0;
  #isUrgent = false;
  /** Number of rows in the write that is in progress. */
  #inWrite = 0;
  #writing: Promise<void> | undefined;
  #groupTimer: NodeJS.Timeout | undefined;
  #isFailing = false;
  /** Number of rows in the row log of which the usage worker has not been told yet. */
  #unsent = 0;
  #sendTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Limit, including adjustments, and tokens of each account with rows of which the worker has not been told. */
  readonly #limits = new Map<string, { readonly limit: number | null; readonly tokens: number }>();
  #onWritten: () => void = () => undefined;
  #post: (request: UsageWorkerRequest) => void = () => undefined;

  constructor(options: UsageWriterOptions) {
    this.#options = options;
  }

  /** Number of this process's rows that come before a position in the row log. */
  rowsBefore(position: number): number {
    return Math.max(0, position - (this.#from ?? position));
  }

  /** Number of rows that may not be in the row log yet. */
  get unkeptRows(): number {
    return this.#count + this.#inWrite;
  }

  /** Sets the function that sends requests to the usage worker, and the one to call after every write, even a failed one. */
  start(post: (request: UsageWorkerRequest) => void, onWritten: () => void): void {
    this.#post = post;
    this.#onWritten = onWritten;
  }

  /** Adds a row, given as JSON. The worker is told of an urgent row as soon as it is written. Never throws. */
  add(row: string, isUrgent: boolean): void {
    this.#rows += `${row},\n`;
    this.#count++;
    this.#isUrgent ||= isUrgent;
    if (this.#writing === undefined) this.#groupTimer ??= setTimeout(() => this.#begin(), groupMs);
  }

  /** Stores an account's limit and adds `tokens`. Returns the account's tokens of which the worker has not been told yet. */
  useLimit(key: string, limit: number | null, tokens: number): number {
    const sum = (this.#limits.get(key)?.tokens ?? 0) + tokens;
    this.#limits.set(key, { limit, tokens: sum });
    return sum;
  }

  /** Resolves when all rows so far are in the row log and the worker has been told, or when a write has failed. */
  async sendAll(): Promise<void> {
    await this.#writing;
    this.#begin();
    await this.#writing;
    this.#send();
  }

  /** Writes the remaining rows and closes the row log. Never rejects. */
  async close(): Promise<void> {
    await this.sendAll();
    this.#isClosed = true;
    clearTimeout(this.#groupTimer);
    await this.#options.log.close();
  }

  #begin(): void {
    clearTimeout(this.#groupTimer);
    this.#groupTimer = undefined;
    if (this.#writing !== undefined || this.#isClosed || this.#count === 0) return;
    this.#writing = this.#write();
  }

  async #write(): Promise<void> {
    const [rows, count, isUrgent] = [this.#rows, this.#count, this.#isUrgent];
    [this.#rows, this.#count, this.#isUrgent, this.#inWrite] = ['', 0, false, count];
    try {
      await append(this.#options.log, { rows, count });
      this.#from ??= this.#options.log.next - count;
      this.keptRows += count;
      this.#unsent += count;
      this.#isFailing = false;
    } catch (error) {
      [this.#rows, this.#count] = [rows + this.#rows, count + this.#count];
      this.#isFailing = true;
      this.#options.onError(error instanceof Error ? error : new Error(String(error)));
    }
    this.#inWrite = 0;
    this.#writing = undefined;
    if (this.#isFailing) this.#isUrgent ||= isUrgent;
    else if (isUrgent || this.#unsent >= gatherRowsMax) this.#send();
    else this.#sendTimer ??= setTimeout(() => this.#send(), gatherMs);
    if (this.#count > 0)
      this.#groupTimer ??= setTimeout(() => this.#begin(), this.#isFailing ? retryMs : groupMs);
    this.#onWritten();
  }

  #send(): void {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = undefined;
    if (this.#unsent === 0) return;
    this.#unsent = 0;
    const limits = Array.from(this.#limits, ([key, { limit }]): AccountLimit => [key, limit]);
    this.#limits.clear();
    this.#post({ kind: 'written', position: this.#options.log.next, limits });
  }
}
