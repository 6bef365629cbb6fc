/**
 * Outbox for usage rows. Reads the data folder's row log (usage-log.ts) as it grows, counts its rows and passes them to the
 * publisher. Each start of the process is an incarnation with its own id. The rows of an incarnation are numbered without
 * gaps in log order, so they get the same numbers whenever they are read. If a process ended before its rows were counted,
 * the next start counts them under the old id. A failed write is retried, and never fails a request that was already
 * answered.
 */
import { randomUUID } from 'node:crypto';
import type { CounterEntry } from '../../schemas/records/limits.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { keepAside, keepCopy } from './kept-files.ts';
import { type OutboxFile, openOutboxFile } from './outbox-file.ts';
import type { OutboxLedger } from './outbox-ledger.ts';
import { SegmentReader } from './segment-reader.ts';
import { type Shipment, Shipper } from './shipper.ts';
import { RowBatch } from './taking.ts';
import { type LogStart, usageFolderOf } from './usage-log.ts';

const rowsMaxDefault = 5_000_000;
/** Approximate maximum number of rows counted in one transaction. */
const takenAtOnceMax = 2_000;
/** Longest time in ms until an acknowledgement is stored. Rows whose acknowledgement is lost are merely shipped again. */
const acknowledgedMs = 200;
const retryMsMin = 50;
const retryMsMax = 2_000;

export interface OutboxOptions {
  readonly path: string;
  /** Maximum number of counted rows that are not on the usage log yet. If there are more, requests are refused. */
  readonly rowsMax?: number;
  /** Returns the wall-clock time in ms since 1970. */
  readonly now?: () => number;
  /** Called for each failed write, each refused row, and each unreadable part of the row log. */
  readonly onError?: (error: Error) => void;
}

/** Opens the outbox of a data folder, or creates it. Throws errors from `shared/runtime/sqlite.ts`. */
export function openOutbox(options: OutboxOptions): Outbox {
  const { file, quarantinedAs } = openOutboxFile(options.path, (options.now ?? wallClockMs)());
  if (quarantinedAs !== undefined)
    options.onError?.(new Error(`the outbox was damaged; it was moved to ${quarantinedAs}`));
  return new Outbox(file, options);
}

export class Outbox {
  /** Number of rows that were refused as invalid. Their usage is lost. */
  refused = 0;
  failures = 0;
  /** Id of this start of the process. */
  readonly incarnation = randomUUID();
  readonly file: OutboxFile;
  readonly #options: OutboxOptions;
  readonly #reader: SegmentReader;
  readonly #shipper: Shipper;
  /** Position up to which the row log is known to be written. */
  #end = Number.POSITIVE_INFINITY;
  /** Whether the outbox still counts what earlier processes left. Nothing is appended to the row log in the meantime. */
  #isStart = true;
  /** Segment and replica id for which the current numbering began. */
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

  /** Counters of the usage that this data folder has recorded, as stored on disk. */
  get ledger(): OutboxLedger {
    return this.file.ledger;
  }
  /** Position in the row log before which all rows are counted. */
  get taken(): number {
    return this.file.taken.taken;
  }
  /** Position in the row log before which all rows are on the usage log. */
  get shipped(): number {
    return this.#shipper.shipped.position;
  }
  /** Says where this process must begin to write to the row log, and with what heading. */
  logStart(): LogStart {
    const heading = { database: this.file.id, incarnation: this.incarnation };
    return { folder: usageFolderOf(this.#options.path), heading, from: this.taken };
  }
  /** Number of rows that were counted but are not known to be on the usage log. */
  get unshipped(): number {
    return this.taken - this.shipped;
  }
  /** Whether usage can no longer be recorded safely, so that requests must be refused. */
  get isFull(): boolean {
    return this.#retryMs > 0 || this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault);
  }

  /** Must be called when the log contains all rows before `position`. Counts them unless a failed write is being retried. */
  follow(position: number): void {
    this.#end = Math.max(this.#end, position);
    if (this.#retryMs === 0) this.flush();
  }

  /** Counts all rows in the row log. If that fails, returns false and retries later. */
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

  /** Sets the listener to call when further rows are stored safely and can be shipped. */
  setOnDurable(listener: () => void): void {
    this.#onDurable = listener;
  }

  /** Sets the listener to call after each attempt to write. */
  setOnWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** Sets the listener to call with the sums that were added to the ledger. */
  setOnCounted(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onCounted = listener;
  }

  /** Sets the listener to call with the sums of all rows that were counted or refused. */
  setOnSettled(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onSettled = listener;
  }

  /** Rows to ship next, oldest first, or undefined if all stored rows are on the usage log. */
  nextShipment(): Shipment | undefined {
    const shipment = this.#shipper.next();
    if (this.#shipper.isAhead) this.#schedule(acknowledgedMs);
    return shipment;
  }

  /** Must be called when the usage log has acknowledged a shipment. If a crash undoes this, the rows are shipped again. */
  markShipped(shipment: Shipment): void {
    if (this.#closed) return;
    this.#shipper.markShipped(shipment);
    if (this.#shipper.isAhead) this.#schedule(acknowledgedMs);
  }

  /** Ships an incarnation's rows again, from number `n` on. Returns false if this folder no longer has them, or never had. */
  reship(incarnation: string, n: number): boolean {
    if (!this.#shipper.reship(incarnation, n)) return false;
    this.#onDurable();
    return true;
  }

  /** Ids of all incarnations whose rows may still be in the row log, including this one. */
  incarnations(): string[] {
    return [...new Set([...this.file.marks.map(({ incarnation }) => incarnation), this.incarnation])];
  }

  /** Counts the rows that remain in the row log and closes the files. */
  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#reader.close();
    this.#shipper.close();
    this.file.close();
  }

  /** Ends the catch-up phase. From now on, the row log is read only up to the positions that this process reports. */
  #started(): void {
    this.#reader.seek(this.taken);
    this.#isStart = false;
    this.#end = this.taken;
  }

  /** Counts some rows in one transaction. Returns false if there were none to count. */
  #take(): boolean {
    if (this.#reader.position !== this.taken) this.#reader.seek(this.taken);
    const taking = new RowBatch(this.file, this.#marked);
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
    { faults, records }: RowBatch,
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
   * Moves the row log's files aside if their rows must not be billed. That is so if the log belongs to another database, or
   * begins after the position that this database has reached, because `outbox.db` was deleted or replaced by an older copy.
   * Most of these rows have already been billed under other numbers.
   */
  #keepAsideUnlessOwn(): void {
    const others = keepAside(this.#reader.otherPaths, this.#now());
    if (others.length > 0) this.#report(new Error(`not segments of the usage log: ${others.join(', ')}`));
    const { oldest = 0 } = this.#reader;
    const first = this.#reader.next(true);
    this.#reader.seek(this.taken);
    if (oldest <= this.taken && (first === undefined || new RowBatch(this.file, '').isOwn(first))) return;
    const kept = keepAside(this.#reader.paths, this.#now()).join(', ');
    this.#report(new Error(`usage rows of another database are not billed: ${kept}`));
  }

  #reportDamage(): void {
    const kept = this.#try(() => keepCopy(this.#reader.path, this.#now())) ?? this.#reader.path;
    this.#report(new Error(`unreadable parts of the usage log are not billed: ${kept}`));
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
