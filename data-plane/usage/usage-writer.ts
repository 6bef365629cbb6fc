/**
 * Writes rows to their log, on the main thread but without waiting for the disk: rows recorded during a write are in the
 * next. Each message about new rows wakes the usage worker, so it gets ten a second, or one at once near an allowance's end.
 */
import type { SegmentLog } from './segment-log.ts';
import { append } from './usage-log.ts';
import type { AccountLimit, UsageWorkerRequest } from './worker-messages.ts';

/** Time in ms whose rows form one group. With a timer's delay, a row is in the log within 10 ms. */
const groupMs = 7;
/** Groups within this time of the first one, or up to this number of rows, share a message and a transaction. */
const gatherMs = 100;
const gatherRowsMax = 500;
/** Pause in ms after a failed write. */
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
  /** Rows that are not in a write yet. */
  #rows = '';
  #count = 0;
  #isUrgent = false;
  /** Rows in the current write. */
  #inWrite = 0;
  #writing: Promise<void> | undefined;
  #groupTimer: NodeJS.Timeout | undefined;
  #isFailing = false;
  /** Rows in the log that the worker does not know of yet. */
  #unsent = 0;
  #sendTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Limits of the accounts of unsent rows, adjustments included, and the tokens of these rows. */
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

  /** Rows that are not known to be in the log. */
  get unkeptRows(): number {
    return this.#count + this.#inWrite;
  }

  /** Sends to the usage worker with `post`, and calls `onWritten` after each write, even a failed one. */
  start(post: (request: UsageWorkerRequest) => void, onWritten: () => void): void {
    this.#post = post;
    this.#onWritten = onWritten;
  }

  /** Adds a row as JSON. If it is urgent, the worker reads it with its group. Never throws. */
  add(row: string, isUrgent: boolean): void {
    this.#rows += `${row},\n`;
    this.#count++;
    this.#isUrgent ||= isUrgent;
    if (this.#writing === undefined) this.#groupTimer ??= setTimeout(() => this.#begin(), groupMs);
  }

  /** Notes an account's limit and the tokens of a row. Returns the tokens of the account's unsent rows. */
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

  /** Writes the remaining rows and closes the log. Never rejects. */
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
