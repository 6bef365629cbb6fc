/**
 * The transactional outbox of usage rows: rows are queued for a turn of the event loop, written in groups, and kept in
 * `outbox.db` for a day after the usage log has acknowledged them. Each process start is an incarnation with an id of its
 * own; its rows are numbered without gaps, and rows of earlier incarnations are shipped under their own ids.
 * `kill -9` loses at most the rows of the last 10 ms. A failed write is reported and retried; it never fails a request
 * that was already served.
 */
import { randomUUID } from 'node:crypto';
import type { CounterEntry } from '../../schemas/limits.ts';
import { type Draw, type UsageRow, usageRecordRowsMax, usageRowSchema } from '../../schemas/usage.ts';
import { nothing, type Sum } from '../../shared/limits/counters.ts';
import {
  type Incarnation,
  type OutboxFile,
  openOutboxFile,
  type PendingSum,
  type QueuedUsage,
  type Shipped,
} from './outbox-file.ts';
import type { OutboxLedger } from './outbox-ledger.ts';
import { entriesOf, type VisitFacts } from './worker-messages.ts';

const rowsMaxDefault = 5_000_000;
/** Rows that may wait in memory while the disk cannot be written. */
const queueRowsMaxDefault = 10_000;
/** An acknowledgement is written with the next rows, or after this: losing it costs only a repeated shipment. */
const acknowledgedMs = 200;
const retryMsMin = 50;
const retryMsMax = 2_000;
const retentionMsDefault = 24 * 3600 * 1000;

export interface OutboxOptions {
  readonly path: string;
  /** Rows not on the log yet that the file may hold. */
  readonly rowsMax?: number;
  readonly queueRowsMax?: number;
  /** How long a row is kept after the log acknowledged it, ms. */
  readonly retentionMs?: number;
  /** Wall clock, ms since 1970. */
  readonly now?: () => number;
  /** Called for each failed write and each dropped row. */
  readonly onError?: (error: Error) => void;
}

/** A row without the fields that the outbox adds. */
type NewUsage = Omit<UsageRow, 'v' | 'incarnation' | 'n'> & { readonly draw: Draw };
export type RecordedUsage = NewUsage & VisitFacts;

/** Rows of one incarnation, in order, that make one record of the log. */
export interface Shipment {
  readonly incarnation: Incarnation;
  /** Number of the first row. */
  readonly firstN: number;
  /** The rows as JSON. */
  readonly bodies: readonly string[];
}

/** Opens the outbox of a data folder, or creates it. Throws the errors of shared/runtime/sqlite.ts. */
export function openOutbox(options: OutboxOptions): Outbox {
  const { file, quarantinedAs } = openOutboxFile(options.path, (options.now ?? Date.now)());
  if (quarantinedAs !== undefined)
    options.onError?.(new Error(`the outbox was damaged; it was moved to ${quarantinedAs}`));
  return new Outbox(file, options);
}

export class Outbox {
  /** Rows that could not be recorded: their usage is lost. */
  dropped = 0;
  /** Writes that failed. */
  failures = 0;
  readonly #file: OutboxFile;
  readonly #options: OutboxOptions;
  readonly #own: Incarnation;
  #nextN = 1;
  #queue: QueuedUsage[] = [];
  #shipped: Shipped[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Rows that arrive in one turn of the event loop share a transaction. */
  #turn: NodeJS.Immediate | undefined;
  #retryMs = 0;
  #closed = false;
  #onDurable: () => void = () => undefined;
  #onWritten: () => void = () => undefined;
  #onCounted: (entries: readonly CounterEntry[]) => void = () => undefined;

  constructor(file: OutboxFile, options: OutboxOptions) {
    this.#file = file;
    this.#options = options;
    this.#own = file.startIncarnation(randomUUID());
  }

  /** What this folder completed itself, as far as it is on the disk. */
  get ledger(): OutboxLedger {
    return this.#file.ledger;
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
  get unwritten(): number {
    return this.#queue.length;
  }
  /** True where no further usage can be recorded safely: requests must be refused until it can. */
  get isFull(): boolean {
    return this.#retryMs > 0 || this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault);
  }

  /** Queues a row and returns at once; it is on the disk within 10 ms. False where the row was dropped. Never throws. */
  record({ admittedMs, unfinished, ...usage }: RecordedUsage): boolean {
    const { queueRowsMax = queueRowsMaxDefault } = this.#options;
    if (this.#closed || this.#queue.length >= queueRowsMax) return this.#drop('the outbox is full or closed');
    const n = this.#nextN;
    const { replica } = this.#file.ledger;
    const row = usageRowSchema.safeParse({ v: 1, incarnation: this.#own.id, n, replica, ...usage });
    if (!row.success)
      return this.#drop(`a row of usage is invalid at ${row.error.issues[0]?.path.join('.')}`);
    const entries = entriesOf(row.data, { admittedMs, unfinished });
    if (unfinished) this.#queue.push({ entries });
    else this.#queue.push({ n, body: JSON.stringify(row.data), entries });
    if (!unfinished) this.#nextN++;
    // While writes fail, the retry has its own time.
    if (this.#retryMs === 0) this.#turn ??= setImmediate(() => this.flush());
    return true;
  }

  /** Writes the queue. False where the write failed; it is retried later. */
  flush(): boolean {
    clearTimeout(this.#timer);
    clearImmediate(this.#turn);
    this.#timer = undefined;
    this.#turn = undefined;
    if (this.#queue.length === 0 && this.#shipped.length === 0) return true;
    const isWritten = this.#write();
    this.#onWritten();
    return isWritten;
  }

  /** Calls `listener` whenever rows became durable and can be shipped. One listener. */
  setOnDurable(listener: () => void): void {
    this.#onDurable = listener;
  }

  /** Calls `listener` after each attempt to write. One listener. */
  setOnWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** Calls `listener` with what became durable in the ledger. One listener. */
  setOnCounted(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onCounted = listener;
  }

  /** What the rows that are not on the disk yet add to an account. */
  queued(subject: string, period: string): Sum {
    let sum = nothing;
    for (const { entries } of this.#queue)
      for (const [of, at, tokens, turns] of entries)
        if (of === subject && at === period) sum = { tokens: sum.tokens + tokens, turns: sum.turns + turns };
    return sum;
  }

  /** The oldest rows on the disk that are not on the log yet; undefined where there are none. */
  nextShipment(): Shipment | undefined {
    const incarnation = this.#file.incarnations.find(({ shippedN, lastN }) => shippedN < lastN);
    if (!incarnation) return undefined;
    const bodies = this.#file.read(incarnation, incarnation.shippedN, usageRecordRowsMax);
    return { incarnation, firstN: incarnation.shippedN + 1, bodies };
  }

  /** The log acknowledged these rows. A crash may lose that mark: the rows are then shipped again. */
  markShipped({ incarnation, firstN, bodies }: Shipment): void {
    if (this.#closed || incarnation.shippedN !== firstN - 1) return;
    incarnation.shippedN = firstN + bodies.length - 1;
    this.#shipped.push({ incarnation, uptoN: incarnation.shippedN, atMs: this.#now() });
    this.#schedule(acknowledgedMs);
  }

  /** Ships rows from number `n` on again. False where they belong to another gateway or are no longer in the file. */
  reship(incarnationId: string, n: number): boolean {
    const incarnation = this.#file.incarnations.find(({ id }) => id === incarnationId);
    if (!incarnation || n > incarnation.shippedN || !this.flush()) return false;
    try {
      if (!this.#file.markUnshipped(incarnation, n)) return false;
    } catch (error) {
      this.#report(error);
      return false;
    }
    this.#onDurable();
    return true;
  }

  /** Sums of the pool's rows of version 0.1 that are behind `highWater` of their incarnation. */
  pendingSums(highWater: (incarnation: string) => number): PendingSum[] {
    return this.#file.incarnations.flatMap((incarnation) =>
      this.#file.sums(incarnation, highWater(incarnation.id)),
    );
  }

  /** Ids of the incarnations whose rows are in the file. */
  incarnations(): string[] {
    return this.#file.incarnations.map(({ id }) => id);
  }

  /** Writes the queue and closes the file. Later rows are dropped. */
  close(): void {
    if (this.#closed) return;
    if (!this.flush()) this.dropped += this.#queue.length;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#file.close();
  }

  #write(): boolean {
    const { retentionMs = retentionMsDefault, rowsMax = rowsMaxDefault } = this.#options;
    const hadRows = this.#queue.length > 0;
    let counted: readonly CounterEntry[];
    try {
      const retention = { sinceMs: this.#now() - retentionMs, rowsMax };
      counted = this.#file.write(this.#own, this.#queue, this.#shipped, retention, this.#now());
    } catch (error) {
      this.#onWriteFailed(error);
      return false;
    }
    this.#queue = [];
    this.#shipped = [];
    this.#retryMs = 0;
    if (counted.length > 0) this.#onCounted(counted);
    if (hadRows) this.#onDurable();
    return true;
  }

  #schedule(ms: number): void {
    if (this.#timer === undefined) this.#timer = setTimeout(() => this.flush(), ms);
  }

  #onWriteFailed(error: unknown): void {
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
