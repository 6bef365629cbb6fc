/**
 * Brings rows of usage from the meter to the files: each few milliseconds to the spool, so that the end of the process loses
 * next to none, and ten times a second to the usage worker, which writes them to the database. Each message wakes that
 * thread, so rows are gathered; near the end of an allowance, and where the spool is not written (in time), they are sent at once.
 */
import type { SpoolWriter } from './spool-writer.ts';
import type { AccountLimit, UsageWorkerRequest } from './worker-messages.ts';

/** Rows recorded within this time make one group, ms: with a timer's lateness a row is in the spool within 10. */
const groupMs = 7;
/** Groups within this time of the first one, or until there are so many rows, share a message and a transaction. */
const gatherMs = 100;
const gatherRowsMax = 500;
/** What is not sent yet is kept as bytes outside of the heap: as text it would outlive its requests, and be copied. */
const unsentBytesMin = 256 * 1024;

export class UsageSender {
  readonly #post: (request: UsageWorkerRequest) => void;
  readonly #spool: SpoolWriter;
  /** Rows that are in no group yet. */
  #rows = '';
  #count = 0;
  /** Groups that were not sent yet. */
  #unsent = Buffer.allocUnsafeSlow(unsentBytesMin);
  #unsentBytes = 0;
  #unsentCount = 0;
  #number = 0;
  #isUrgent = false;
  #groupTimer: NodeJS.Timeout | undefined;
  #sendTimer: NodeJS.Timeout | undefined;
  /** What the accounts of the rows that were not sent may use, adjustments included, and what these rows use of it. */
  readonly #limits = new Map<string, { readonly limit: number | null; readonly tokens: number }>();

  constructor(post: (request: UsageWorkerRequest) => void, spool: SpoolWriter) {
    this.#post = post;
    this.#spool = spool;
  }

  /** A row, as JSON. Where it is urgent the worker has it with its group. */
  add(row: string, isUrgent: boolean): void {
    this.#rows += `${row},\n`;
    this.#isUrgent ||= isUrgent;
    if (++this.#count === 1) this.#groupTimer = setTimeout(() => this.keep(), groupMs);
  }

  /** Notes the limit of an account, and tokens of a row. Returns those of all rows that were not sent. */
  useLimit(key: string, limit: number | null, tokens: number): number {
    const sum = (this.#limits.get(key)?.tokens ?? 0) + tokens;
    this.#limits.set(key, { limit, tokens: sum });
    return sum;
  }

  /** Begins to write the rows so far to the spool. */
  keep(): void {
    clearTimeout(this.#groupTimer);
    const isUrgent = this.#isUrgent;
    if (this.#count > 0) this.#group();
    if (this.#unsentCount === 0) return;
    if (isUrgent || this.#unsentCount >= gatherRowsMax || this.#spool.isFailing) this.#send();
    else this.#sendTimer ??= setTimeout(() => this.sendAll(), gatherMs);
  }

  #group(): void {
    const [rows, count] = [this.#rows, this.#count];
    this.#rows = '';
    this.#count = 0;
    const number = this.#spool.append(rows, count);
    const length = Buffer.byteLength(rows);
    if (this.#unsentBytes + length > this.#unsent.length) this.#send();
    if (length > this.#unsent.length) this.#unsent = Buffer.allocUnsafeSlow(length);
    this.#unsentBytes += this.#unsent.write(rows, this.#unsentBytes);
    this.#unsentCount += count;
    this.#number = number;
  }

  /** Sends all rows so far to the worker. */
  sendAll(): void {
    this.keep();
    this.#send();
  }

  /** The spool wrote a group, or could not. */
  onSpooled(): void {
    if (this.#spool.isFailing) this.keep();
  }

  /** The database has the groups up to this number. */
  onTaken(number: number): void {
    this.#spool.taken(number);
  }

  #send(): void {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = undefined;
    if (this.#unsentCount === 0) return;
    // A copy, because a message has the whole buffer of a view.
    const rows = new Uint8Array(this.#unsent.subarray(0, this.#unsentBytes));
    const group = { number: this.#number, rows, count: this.#unsentCount };
    const limits = Array.from(this.#limits, ([key, { limit }]): AccountLimit => [key, limit]);
    this.#post({ kind: 'rows', group, limits });
    this.#unsentBytes = 0;
    this.#unsentCount = 0;
    this.#isUrgent = false;
    this.#limits.clear();
  }
}
