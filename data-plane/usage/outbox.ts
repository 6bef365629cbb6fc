/**
 * Usage that this gateway must not lose: rows wait in memory for a few milliseconds, are written together, and stay in
 * `outbox.db` until the usage log has them and a day longer. Each process start is an incarnation of its own, whose rows
 * are numbered without gaps; rows of earlier ones are shipped under their own.
 * `kill -9` loses at most the rows of the last 10 ms. A disk that cannot be written is reported and tried again; it never
 * fails a request that was already served.
 */
import { randomUUID } from 'node:crypto';
import { type Draw, type UsageRow, usageRecordRowsMax, usageRowSchema } from '../../schemas/usage.ts';
import {
  type Incarnation,
  type NewRow,
  type OutboxFile,
  openOutboxFile,
  type PendingSum,
  type Shipped,
} from './outbox-file.ts';

const rowsMaxDefault = 5_000_000;
/** Rows that may wait in memory while the disk cannot be written. */
const queueRowsMaxDefault = 10_000;
/** Rows come in groups; those that have come but were not looked at yet share the transaction. */
const groupMs = 1;
const retryMsMin = 50;
const retryMsMax = 2_000;
const keptMsDefault = 24 * 3600 * 1000;

export interface OutboxOptions {
  readonly path: string;
  /** Rows not on the log yet that the file may hold. */
  readonly rowsMax?: number;
  readonly queueRowsMax?: number;
  /** How long a row is kept after the log has it, ms. */
  readonly keptMs?: number;
  /** Wall clock, ms since 1970. */
  readonly now?: () => number;
  /** Told of each write that failed and of each row that could not be kept. */
  readonly onError?: (error: Error) => void;
}

/** A row without what the outbox stamps on it. */
export type NewUsage = Omit<UsageRow, 'v' | 'incarnation' | 'n'> & { readonly draw: Draw };

/** Rows of one incarnation, in order, ready for one record of the log. */
export interface Shipment {
  readonly incarnation: Incarnation;
  /** Number of the first row. */
  readonly firstN: number;
  /** The rows as JSON. */
  readonly bodies: readonly string[];
}

/** Opens the outbox of a data folder, or makes it. Throws the errors of shared/runtime/sqlite.ts. */
export function openOutbox(options: OutboxOptions): Outbox {
  const { file, putAsideAs } = openOutboxFile(options.path, (options.now ?? Date.now)());
  if (putAsideAs !== undefined)
    options.onError?.(new Error(`the outbox was damaged; it was moved to ${putAsideAs}`));
  return new Outbox(file, options);
}

export class Outbox {
  /** Rows that could not be kept: their usage is lost. */
  dropped = 0;
  /** Writes that failed. */
  failures = 0;
  readonly #file: OutboxFile;
  readonly #options: OutboxOptions;
  readonly #own: Incarnation;
  #nextN = 1;
  #queue: NewRow[] = [];
  #shipped: Shipped[] = [];
  #timer: NodeJS.Timeout | undefined;
  #retryMs = 0;
  #closed = false;
  #onDurable: () => void = () => undefined;
  #onWritten: () => void = () => undefined;

  constructor(file: OutboxFile, options: OutboxOptions) {
    this.#file = file;
    this.#options = options;
    this.#own = file.begin(randomUUID());
  }

  /** Id of this process start. */
  get incarnation(): string {
    return this.#own.id;
  }
  /** Rows not yet known to be on the log. */
  get unshipped(): number {
    return this.#file.unshipped + this.#queue.length;
  }
  /** Rows that are not on the disk yet. */
  get waiting(): number {
    return this.#queue.length;
  }
  /** True where no further usage can be kept safely: requests must be refused until it can. */
  get isFull(): boolean {
    return this.#retryMs > 0 || this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault);
  }

  /** Takes a row and returns at once; it is on the disk within 10 ms. False where it could not be kept. Never throws. */
  record(usage: NewUsage): boolean {
    const { queueRowsMax = queueRowsMaxDefault } = this.#options;
    if (this.#closed || this.#queue.length >= queueRowsMax)
      return this.#drop('the outbox can take no more rows');
    const n = this.#nextN;
    const row = usageRowSchema.safeParse({ v: 1, incarnation: this.#own.id, n, ...usage });
    if (!row.success)
      return this.#drop(`a row of usage is not valid at ${row.error.issues[0]?.path.join('.')}`);
    this.#nextN++;
    this.#queue.push({ n, body: JSON.stringify(row.data) });
    this.#schedule(groupMs);
    return true;
  }

  /** Writes what waits. False where the disk could not be written; it is then tried again. */
  flush(): boolean {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#queue.length === 0 && this.#shipped.length === 0) return true;
    const isWritten = this.#write();
    this.#onWritten();
    return isWritten;
  }

  /** Calls `listener` whenever rows became ready to be shipped. One listener. */
  whenDurable(listener: () => void): void {
    this.#onDurable = listener;
  }

  /** Calls `listener` after each attempt to write. One listener. */
  whenWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** The oldest rows on the disk that are not on the log yet; undefined where there are none. */
  nextShipment(): Shipment | undefined {
    const incarnation = this.#file.incarnations.find(({ shippedN, lastN }) => shippedN < lastN);
    if (!incarnation) return undefined;
    const bodies = this.#file.read(incarnation, incarnation.shippedN, usageRecordRowsMax);
    return { incarnation, firstN: incarnation.shippedN + 1, bodies };
  }

  /** The log has these rows. What is remembered of it may be lost at a crash: they are then shipped again. */
  shipped({ incarnation, firstN, bodies }: Shipment): void {
    if (this.#closed || incarnation.shippedN !== firstN - 1) return;
    incarnation.shippedN = firstN + bodies.length - 1;
    this.#shipped.push({ incarnation, uptoN: incarnation.shippedN, atMs: this.#now() });
    this.#schedule(groupMs);
  }

  /** Ships rows from number `n` on again. False where they are of another gateway, or no longer here. */
  shipAgain(incarnationId: string, n: number): boolean {
    const incarnation = this.#file.incarnations.find(({ id }) => id === incarnationId);
    if (!incarnation || n > incarnation.shippedN || !this.flush()) return false;
    try {
      if (!this.#file.unship(incarnation, n)) return false;
    } catch (error) {
      this.#report(error);
      return false;
    }
    this.#onDurable();
    return true;
  }

  /** What its rows of the pool behind `highWater` of their incarnation add up to. */
  unfolded(highWater: (incarnation: string) => number): PendingSum[] {
    return this.#file.incarnations.flatMap((incarnation) =>
      this.#file.sums(incarnation, highWater(incarnation.id)),
    );
  }

  /** Ids of the incarnations whose rows are here. */
  incarnations(): string[] {
    return this.#file.incarnations.map(({ id }) => id);
  }

  /** Writes what waits and closes the file. Takes no more rows. */
  close(): void {
    if (this.#closed) return;
    if (!this.flush()) this.dropped += this.#queue.length;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#file.close();
  }

  #write(): boolean {
    const { keptMs = keptMsDefault, rowsMax = rowsMaxDefault } = this.#options;
    const hadRows = this.#queue.length > 0;
    try {
      const keep = { sinceMs: this.#now() - keptMs, rowsMax };
      this.#file.write(this.#own, this.#queue, this.#shipped, keep);
    } catch (error) {
      this.#failed(error);
      return false;
    }
    this.#queue = [];
    this.#shipped = [];
    this.#retryMs = 0;
    if (hadRows) this.#onDurable();
    return true;
  }

  #schedule(ms: number): void {
    if (this.#timer === undefined) this.#timer = setTimeout(() => this.flush(), ms);
  }

  #failed(error: unknown): void {
    this.failures++;
    this.#retryMs = Math.min(Math.max(this.#retryMs * 2, retryMsMin), retryMsMax);
    this.#schedule(this.#retryMs);
    this.#report(error);
  }

  #drop(reason: string): false {
    this.dropped++;
    this.#report(new Error(reason));
    return false;
  }

  #report(error: unknown): void {
    this.#options.onError?.(error instanceof Error ? error : new Error(String(error)));
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}
