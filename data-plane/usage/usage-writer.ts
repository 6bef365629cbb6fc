/**
 * Writes rows to their log, on the thread of requests and without ever waiting for the disk: one write at a time is under way, and
 * what is recorded meanwhile is written with the next. Ten times a second the usage worker receives how far the log is: each message
 * wakes that thread. Near the end of an allowance it receives that at once. Without rows nothing wakes.
 */
import type { SegmentLog } from './segment-log.ts';
import { append } from './usage-log.ts';
import type { AccountLimit, UsageWorkerRequest } from './worker-messages.ts';

/** Rows recorded within this time make one group, ms: with a timer's lateness a row is in the log within 10. */
const groupMs = 7;
/** Groups within this time of the first one, or until there are so many rows, share a message and a transaction. */
const gatherMs = 100;
const gatherRowsMax = 500;
/** After a write that failed, the next attempt, ms. */
const retryMs = 1_000;

export interface UsageWriterOptions {
  readonly log: SegmentLog;
  readonly onError: (error: Error) => void;
}

export class UsageWriter {
  /** Rows of this process in the log. */
  keptRows = 0;
  readonly #options: UsageWriterOptions;
  /** Position of the first row of this process. */
  #from: number | undefined;
  /** Rows that are in no write yet. */
  #rows = '';
  #count = 0;
  #isUrgent = false;
  /** Rows that are in the write that is under way. */
  #inWrite = 0;
  #writing: Promise<void> | undefined;
  #groupTimer: NodeJS.Timeout | undefined;
  #isFailing = false;
  /** Rows in the log that the worker does not know of. */
  #unsent = 0;
  #sendTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** What the accounts of the rows that were not sent may use, adjustments included, and what these rows use of it. */
  readonly #limits = new Map<string, { readonly limit: number | null; readonly tokens: number }>();
  #onWritten: () => void = () => undefined;
  #post: (request: UsageWorkerRequest) => void = () => undefined;

  constructor(options: UsageWriterOptions) {
    this.#options = options;
  }

  /** Rows of this process before a position. */
  rowsBefore(position: number): number {
    return Math.max(0, position - (this.#from ?? position));
  }

  /** Rows that are not in the log, or not known to be. */
  get unkeptRows(): number {
    return this.#count + this.#inWrite;
  }

  /** Sends to the usage worker with `post`, and calls `onWritten` after each write, also one that failed. */
  start(post: (request: UsageWorkerRequest) => void, onWritten: () => void): void {
    this.#post = post;
    this.#onWritten = onWritten;
  }

  /** A row, as JSON. Where it is urgent the worker reads it with its group. Never throws. */
  add(row: string, isUrgent: boolean): void {
    this.#rows += `${row},\n`;
    this.#count++;
    this.#isUrgent ||= isUrgent;
    if (this.#writing === undefined) this.#groupTimer ??= setTimeout(() => this.#begin(), groupMs);
  }

  /** Notes the limit of an account, and tokens of a row. Returns those of all rows that were not sent. */
  useLimit(key: string, limit: number | null, tokens: number): number {
    const sum = (this.#limits.get(key)?.tokens ?? 0) + tokens;
    this.#limits.set(key, { limit, tokens: sum });
    return sum;
  }

  /** Resolves once all rows so far are in the log and the worker knows of them, or a write failed. */
  async sendAll(): Promise<void> {
    await this.#writing;
    this.#begin();
    await this.#writing;
    this.#send();
  }

  /** Writes what is left, and ends. Never rejects. */
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
