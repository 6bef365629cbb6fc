/**
 * The outbox of usage rows: follows their log (usage-log.ts) from where the last transaction ended, counts what they add up to, and
 * hands them to the publisher. Each process start is an incarnation with an id of its own; its rows are numbered without gaps, by
 * their order in the log alone, so each reading gives the same numbers. What a process that ended had in the log, and
 * did not count, is counted at the next start, under its id. A failed write is reported and retried; it never fails a request that
 * was already served.
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
/** One transaction takes about so many rows at most. */
const takenAtOnceMax = 2_000;
/** An acknowledgement is written with the next rows, or after this: losing it costs only a repeated shipment. */
const acknowledgedMs = 200;
const retryMsMin = 50;
const retryMsMax = 2_000;

export interface OutboxOptions {
  readonly path: string;
  /** Rows not on the usage log yet that may be kept. */
  readonly rowsMax?: number;
  /** Wall clock, ms since 1970. */
  readonly now?: () => number;
  /** Called for each failed write, each refused row, and what cannot be read. */
  readonly onError?: (error: Error) => void;
}

/** Opens the outbox of a data folder, or creates it. Throws the errors of shared/runtime/sqlite.ts. */
export function openOutbox(options: OutboxOptions): Outbox {
  const { file, quarantinedAs } = openOutboxFile(options.path, (options.now ?? wallClockMs)());
  if (quarantinedAs !== undefined)
    options.onError?.(new Error(`the outbox was damaged; it was moved to ${quarantinedAs}`));
  return new Outbox(file, options);
}

export class Outbox {
  /** Rows that are none and were refused: their usage is lost. */
  refused = 0;
  /** Writes that failed. */
  failures = 0;
  /** Id of this process start. */
  readonly incarnation = randomUUID();
  readonly file: OutboxFile;
  readonly #options: OutboxOptions;
  readonly #reader: SegmentReader;
  readonly #shipper: Shipper;
  /** Where the log is known to end. */
  #end = Number.POSITIVE_INFINITY;
  /** Until the process begins its own segment, nobody appends. */
  #isStart = true;
  /** Of which segment, and of which replica, the last mark is. */
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

  /** What this folder completed itself, as far as it is on the disk. */
  get ledger(): OutboxLedger {
    return this.file.ledger;
  }
  /** Position in the log: what is before it is counted. */
  get taken(): number {
    return this.file.taken.taken;
  }
  /** Position in the log: what is before it is on the usage log. */
  get shipped(): number {
    return this.#shipper.shipped.position;
  }
  /** Where the log of this process begins. */
  logStart(): LogStart {
    const heading = { database: this.file.id, incarnation: this.incarnation };
    return { folder: usageFolderOf(this.#options.path), heading, from: this.taken };
  }
  /** Rows not yet known to be on the usage log. */
  get unshipped(): number {
    return this.taken - this.shipped;
  }
  /** True where no further usage can be recorded safely: requests must be refused until it can. */
  get isFull(): boolean {
    return this.#retryMs > 0 || this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault);
  }

  /** The log has what is before this position. While writes fail, the retry has its own time. */
  follow(position: number): void {
    this.#end = Math.max(this.#end, position);
    if (this.#retryMs === 0) this.flush();
  }

  /** Counts what the log has. False where that failed; it is retried later. */
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

  /** Calls `listener` with what became durable in the ledger. One listener. */
  setOnCounted(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onCounted = listener;
  }

  /** Calls `listener` with what rows add to the counters once it is in the ledger, or they were refused. One listener. */
  setOnSettled(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onSettled = listener;
  }

  /** The oldest rows on the disk that are not on the usage log yet; undefined where there are none. */
  nextShipment(): Shipment | undefined {
    const shipment = this.#shipper.next();
    if (this.#shipper.isAhead) this.#schedule(acknowledgedMs);
    return shipment;
  }

  /** The usage log acknowledged these rows. A crash may lose that mark: the rows are then shipped again. */
  markShipped(shipment: Shipment): void {
    if (this.#closed) return;
    this.#shipper.markShipped(shipment);
    if (this.#shipper.isAhead) this.#schedule(acknowledgedMs);
  }

  /** Ships rows from number `n` on again. False where they belong to another gateway or are no longer kept. */
  reship(incarnation: string, n: number): boolean {
    if (!this.#shipper.reship(incarnation, n)) return false;
    this.#onDurable();
    return true;
  }

  /** Ids of the incarnations whose rows are kept. */
  incarnations(): string[] {
    return [...new Set([...this.file.marks.map(({ incarnation }) => incarnation), this.incarnation])];
  }

  /** Counts what the log has and closes the file. */
  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#reader.close();
    this.#shipper.close();
    this.file.close();
  }

  /** From here on this process appends, and says how far it is. */
  #started(): void {
    this.#reader.seek(this.taken);
    this.#isStart = false;
    this.#end = this.taken;
  }

  /** False where nothing is left to be written. */
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
   * A log of another database, or one that begins behind this one: an older `outbox.db` was brought back, or it was deleted. Its rows
   * would be numbered again, and most were billed, so none of them is taken.
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
