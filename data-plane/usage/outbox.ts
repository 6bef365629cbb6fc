/**
 * The outbox of usage rows. It follows their log (usage-log.ts) from where the last transaction ended, counts them, and hands
 * them to the publisher. Each process start is an incarnation with an id of its own. Its rows are numbered without gaps by
 * their order in the log alone, so each reading yields the same numbers. Rows that an ended process did not count are counted
 * at the next start, under its id. A failed write is retried and never fails a request that was already served.
 */
import { randomUUID } from 'node:crypto';
import type { CounterEntry } from '../../schemas/records/limits.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { keepAside, keepCopy } from './kept-files.ts';
import { type OutboxFile, openOutboxFile } from './outbox-file.ts';
import type { OutboxLedger } from './outbox-ledger.ts';
import { SegmentReader } from './segment-reader.ts';
import { type Shipment, Shipper } from './shipper.ts';
import { Taking } from './taking.ts';
import { type LogStart, usageFolderOf } from './usage-log.ts';

const rowsMaxDefault = 5_000_000;
/** Approximate maximum number of rows in a transaction. */
const takenAtOnceMax = 2_000;
/** An acknowledgement is written with the next rows, or after this time: losing it only repeats a shipment. */
const acknowledgedMs = 200;
const retryMsMin = 50;
const retryMsMax = 2_000;

export interface OutboxOptions {
  readonly path: string;
  /** Maximum number of rows that are not on the usage log yet. */
  readonly rowsMax?: number;
  /** Wall clock in ms since 1970. */
  readonly now?: () => number;
  /** Called for each failed write, each refused row, and unreadable parts of the log. */
  readonly onError?: (error: Error) => void;
}

/** Opens or creates the outbox of a data folder. Throws the errors of shared/runtime/sqlite.ts. */
export function openOutbox(options: OutboxOptions): Outbox {
  const { file, quarantinedAs } = openOutboxFile(options.path, (options.now ?? wallClockMs)());
  if (quarantinedAs !== undefined)
    options.onError?.(new Error(`the outbox was damaged; it was moved to ${quarantinedAs}`));
  return new Outbox(file, options);
}

export class Outbox {
  /** Invalid rows that were refused, so that their usage is lost. */
  refused = 0;
  /** Failed writes. */
  failures = 0;
  /** Id of this process start. */
  readonly incarnation = randomUUID();
  readonly file: OutboxFile;
  readonly #options: OutboxOptions;
  readonly #reader: SegmentReader;
  readonly #shipper: Shipper;
  /** Known end of the log. */
  #end = Number.POSITIVE_INFINITY;
  /** True until this process begins its own segment; nobody appends before. */
  #isStart = true;
  /** Segment and replica of the last mark. */
  #marked = '';
  #timer: NodeJS.Timeout | undefined;
  #retryMs = 0;
  #closed = false;
  #onDurable: () => void = () => undefined;
  #onWritten: () => void = () => undefined;
  #onCounted: (entries: readonly CounterEntry[]) => void = () => undefined;
  #onSettled: (entries: readonly CounterEntry[]) => void = () => undefined;

  constructor(file: OutboxFile, options: OutboxOptions) {
    this.file = file;
    this.#options = options;
    const folder = usageFolderOf(options.path);
    this.#reader = new SegmentReader(folder, this.taken);
    this.#shipper = new Shipper(file, new SegmentReader(folder, file.shipped.position), (error) =>
      this.#report(error),
    );
    this.#keepAsideUnlessOwn();
    if (this.flush() && this.#reader.hasRest) this.#reportDamage();
    file.startProcess(this.incarnation);
    this.#started();
  }

  /** Counters of what this folder completed, as far as they are on the disk. */
  get ledger(): OutboxLedger {
    return this.file.ledger;
  }
  /** Position in the log before which all rows are counted. */
  get taken(): number {
    return this.file.taken.taken;
  }
  /** Position in the log before which all rows are on the usage log. */
  get shipped(): number {
    return this.#shipper.shipped.position;
  }
  /** Place from which on this process writes to the log. */
  logStart(): LogStart {
    const heading = { database: this.file.id, incarnation: this.incarnation };
    return { folder: usageFolderOf(this.#options.path), heading, from: this.taken };
  }
  /** Rows not yet known to be on the usage log. */
  get unshipped(): number {
    return this.taken - this.shipped;
  }
  /** Whether usage can no longer be recorded safely. Requests must then be refused. */
  get isFull(): boolean {
    return this.#retryMs > 0 || this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault);
  }

  /** Notes that the log contains all rows before this position, and counts them unless a retry is pending. */
  follow(position: number): void {
    this.#end = Math.max(this.#end, position);
    if (this.#retryMs === 0) this.flush();
  }

  /** Counts the rows in the log. Returns false if that failed; it is retried later. */
  flush(): boolean {
    if (this.#closed) return false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.taken >= this.#end && !this.#shipper.isAhead) return true;
    let isDone = true;
    try {
      while (this.#take());
      this.#retryMs = 0;
    } catch (error) {
      isDone = false;
      this.#onFailed(error);
    }
    this.#onWritten();
    return isDone;
  }

  /** Calls `listener` whenever rows became durable and can be shipped. One listener. */
  setOnDurable(listener: () => void): void {
    this.#onDurable = listener;
  }

  /** Calls `listener` after each attempt to write. One listener. */
  setOnWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** Calls `listener` with the entries that became durable in the ledger. One listener. */
  setOnCounted(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onCounted = listener;
  }

  /** Calls `listener` with entries once they are in the ledger or their rows were refused. One listener. */
  setOnSettled(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onSettled = listener;
  }

  /** Oldest rows on the disk that are not on the usage log yet; undefined if there are none. */
  nextShipment(): Shipment | undefined {
    const shipment = this.#shipper.next();
    if (this.#shipper.isAhead) this.#schedule(acknowledgedMs);
    return shipment;
  }

  /** Notes that the usage log acknowledged these rows. If a crash loses the note, they are shipped again. */
  markShipped(shipment: Shipment): void {
    if (this.#closed) return;
    this.#shipper.markShipped(shipment);
    if (this.#shipper.isAhead) this.#schedule(acknowledgedMs);
  }

  /** Ships rows from number `n` on again. Returns false if they belong to another gateway or are no longer kept. */
  reship(incarnation: string, n: number): boolean {
    if (!this.#shipper.reship(incarnation, n)) return false;
    this.#onDurable();
    return true;
  }

  /** Ids of the incarnations whose rows are kept. */
  incarnations(): string[] {
    return [...new Set([...this.file.marks.map(({ incarnation }) => incarnation), this.incarnation])];
  }

  /** Counts the rows in the log and closes the file. */
  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#reader.close();
    this.#shipper.close();
    this.file.close();
  }

  /** Follows this process's own rows from now on, up to the positions that it reports. */
  #started(): void {
    this.#reader.seek(this.taken);
    this.#isStart = false;
    this.#end = this.taken;
  }

  /** Counts rows in one transaction. Returns false if nothing was left. */
  #take(): boolean {
    if (this.#reader.position !== this.taken) this.#reader.seek(this.taken);
    const taking = new Taking(this.file, this.#marked);
    while (taking.records < takenAtOnceMax && this.#reader.position < this.#end) {
      const group = this.#reader.next(this.#isStart);
      if (group === undefined) break;
      if (group.position > taking.taken.taken) this.#reportDamage();
      taking.add(group);
    }
    if (taking.records === 0 && !this.#shipper.isAhead) return false;
    this.#reader.sync();
    const { counted, settled, marks } = taking;
    const oldest = marks.length > 0 ? (this.#reader.oldest ?? 0) : 0;
    const entries = counted.all();
    this.file.write(
      { taken: taking.taken, entries, marks, shipped: this.#shipper.shipped, oldest },
      this.#now(),
    );
    this.#shipper.keep(taking.parts);
    this.#marked = taking.marked;
    this.#afterWrite(taking, entries, settled.all());
    return taking.records > 0;
  }

  #afterWrite(
    { faults, records }: Taking,
    entries: readonly CounterEntry[],
    settled: readonly CounterEntry[],
  ): void {
    this.refused += faults.length;
    for (const fault of faults) this.#report(new Error(fault));
    if (entries.length > 0) this.#onCounted(entries);
    if (settled.length > 0) this.#onSettled(settled);
    if (records > 0) this.#onDurable();
  }

  /**
   * Moves a log aside if it belongs to another database, or begins after this one because `outbox.db` was deleted or an older
   * one restored. Most of its rows were billed under other numbers, so none is counted.
   */
  #keepAsideUnlessOwn(): void {
    const others = keepAside(this.#reader.otherPaths, this.#now());
    if (others.length > 0) this.#report(new Error(`no segments of the log of usage: ${others.join(', ')}`));
    const { oldest = 0 } = this.#reader;
    const first = this.#reader.next(true);
    this.#reader.seek(this.taken);
    if (oldest <= this.taken && (first === undefined || new Taking(this.file, '').isOwn(first))) return;
    const kept = keepAside(this.#reader.paths, this.#now()).join(', ');
    this.#report(new Error(`rows of usage are not of this database and not billed: ${kept}`));
  }

  #reportDamage(): void {
    const kept = this.#try(() => keepCopy(this.#reader.path, this.#now())) ?? this.#reader.path;
    this.#report(new Error(`parts of the log of usage cannot be read and are not billed: ${kept}`));
  }

  #schedule(ms: number): void {
    if (!this.#closed) this.#timer ??= setTimeout(() => this.flush(), ms);
  }

  #onFailed(error: unknown): void {
    this.failures++;
    this.#retryMs = Math.min(Math.max(this.#retryMs * 2, retryMsMin), retryMsMax);
    this.#schedule(this.#retryMs);
    this.#report(error);
  }

  #try<Result>(operation: () => Result): Result | undefined {
    try {
      return operation();
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }

  #report(error: unknown): void {
    this.#options.onError?.(error instanceof Error ? error : new Error(String(error)));
  }

  #now(): number {
    return (this.#options.now ?? wallClockMs)();
  }
}
