/**
 * The transactional outbox of usage rows: rows that arrive together are written to `outbox.db` together, and kept there for a
 * day after the usage log has acknowledged them. Each process start is an incarnation with an id of its own; its rows are
 * numbered without gaps, and rows of earlier incarnations are shipped under their own ids. What a process that ended had
 * in its spool (outbox-spool.ts), and not here, is written at the next start. A failed write is reported and retried; it never
 * fails a request that was already served.
 */
import { randomUUID } from 'node:crypto';
import { dayMs } from '../../schemas/durations.ts';
import type { CounterEntry } from '../../schemas/limits.ts';
import { usageRecordRowsMax, usageRowSchema } from '../../schemas/usage.ts';
import type { Sum } from '../../shared/limits/counters.ts';
import {
  type Incarnation,
  type OutboxFile,
  openOutboxFile,
  type QueuedUsage,
  type Shipped,
} from './outbox-file.ts';
import type { OutboxLedger } from './outbox-ledger.ts';
import {
  allKept,
  copySpool,
  derivedId,
  emptySpool,
  readSpool,
  type SpooledGroup,
  type UsageGroup,
} from './outbox-spool.ts';
import { entriesOfPlainRow } from './plain-row.ts';
import { parsedRow, rowsIn, Sums } from './rows.ts';
import type { SpoolStart } from './spool-writer.ts';
import { entriesOf } from './worker-messages.ts';

const rowsMaxDefault = 5_000_000;
/** Rows that may wait in memory while the disk cannot be written. */
const queueRowsMaxDefault = 10_000;
/** An acknowledgement is written with the next rows, or after this: losing it costs only a repeated shipment. */
const acknowledgedMs = 200;
const retryMsMin = 50;
const retryMsMax = 2_000;
const retentionMsDefault = dayMs;

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

/** Numbers the rows of an incarnation. */
interface Numberer {
  readonly incarnation: Incarnation;
  nextN: number;
}

export class Outbox {
  /** Rows that could not be recorded: their usage is lost. */
  dropped = 0;
  /** Writes that failed. */
  failures = 0;
  /** Rows that are not in the database yet. */
  unwritten = 0;
  readonly #file: OutboxFile;
  readonly #options: OutboxOptions;
  readonly #own: Numberer;
  /** Groups that are not parsed yet. */
  #held: UsageGroup[] = [];
  /** Number of the last group. */
  #group: number;
  #queue: QueuedUsage[] = [];
  /** What the queue, and rows that use no number, add to the counters. */
  #sums = new Sums();
  #shipped: Shipped[] = [];
  #timer: NodeJS.Timeout | undefined;
  #retryMs = 0;
  #closed = false;
  #onDurable: () => void = () => undefined;
  #onWritten: () => void = () => undefined;
  #onCounted: (entries: readonly CounterEntry[]) => void = () => undefined;
  #onTaken: (entries: readonly CounterEntry[]) => void = () => undefined;

  constructor(file: OutboxFile, options: OutboxOptions) {
    this.#file = file;
    this.#options = options;
    this.#group = file.groupsTaken;
    const { groups, faults, damaged } = readSpool(options.path, file.spoolId, this.#now());
    for (const fault of faults) this.#report(fault);
    let kept = damaged;
    if (!this.#takeGroups(groups, damaged.size > 0)) {
      kept = allKept(options.path, this.#now());
      const names = [...kept.values()].join(', ');
      this.#report(
        new Error(`parts of the spool of usage are not of this database and not billed: ${names}`),
      );
    }
    this.#own = { incarnation: file.startIncarnation(randomUUID()), nextN: 1 };
    const isWritten = this.#group === file.groupsTaken || this.#write();
    this.#try(() => (isWritten ? emptySpool(options.path, kept) : copySpool(kept)));
  }

  /** What this folder completed itself, as far as it is on the disk. */
  get ledger(): OutboxLedger {
    return this.#file.ledger;
  }
  /** Id of this process start. */
  get incarnation(): string {
    return this.#own.incarnation.id;
  }
  /** Where the spool of this process begins. */
  get spoolStart(): SpoolStart {
    const { path: outboxPath } = this.#options;
    const [databaseId, number, taken] = [this.#file.spoolId, this.#group, this.groupsTaken];
    return { outboxPath, databaseId, incarnation: this.incarnation, number, taken };
  }
  /** Number of the last group that is in the database. */
  get groupsTaken(): number {
    return this.#file.groupsTaken;
  }
  /** Rows not yet known to be on the log. */
  get unshipped(): number {
    return this.#file.unshipped + this.unwritten;
  }
  /** True where no further usage can be recorded safely: requests must be refused until it can. */
  get isFull(): boolean {
    return this.#retryMs > 0 || this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault);
  }

  /** Writes a group. Where the disk refuses it is retried; where the outbox is full or closed it is dropped. Never throws. */
  append(group: UsageGroup): void {
    const { queueRowsMax = queueRowsMaxDefault } = this.#options;
    if (this.#closed || this.unwritten >= queueRowsMax) {
      this.#dropGroup(group);
      return;
    }
    this.#held.push(group);
    this.unwritten += group.count;
    this.#group = group.number;
    // While writes fail, the retry has its own time.
    if (this.#retryMs === 0) this.flush();
  }

  /** Writes what has arrived. False where the write failed; it is retried later. */
  flush(): boolean {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#group === this.#file.groupsTaken && this.#shipped.length === 0) return true;
    this.#takeHeld();
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

  /** Calls `listener` with what rows add to the counters once it is in `ledger` or `queued`, or was dropped. One listener. */
  setOnTaken(listener: (entries: readonly CounterEntry[]) => void): void {
    this.#onTaken = listener;
  }

  /** What rows that were taken, and are not in the database yet, add to an account. */
  queued(subject: string, period: string): Sum {
    return this.#sums.get(subject, period);
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

  /** Ids of the incarnations whose rows are in the file. */
  incarnations(): string[] {
    return this.#file.incarnations.map(({ id }) => id);
  }

  /** Writes the queue and closes the file. Later rows are dropped. */
  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#file.close();
  }

  /**
   * Under the incarnation and with the numbers that the process before this one would have given: a copy of the folder, or the
   * folder itself if it is brought back, gives the same, and the usage log takes a repeated row for one. False where groups
   * are missing before one, though no file is damaged: the database is an older one, its numbers would be given to other rows, and
   * most rows behind were billed, so none of them is taken.
   */
  #takeGroups(groups: readonly SpooledGroup[], isDamaged: boolean): boolean {
    const taken = new Sums();
    let numberer: Numberer | undefined;
    for (const group of groups) {
      if (group.number <= this.#group) continue;
      if (group.number > this.#group + 1 && !isDamaged) return false;
      if (group.incarnation !== numberer?.incarnation.id) numberer = this.#continue(group.incarnation);
      this.#take(group, numberer, taken);
      this.#group = group.number;
      this.unwritten += group.count;
    }
    return true;
  }

  #continue(process: string): Numberer {
    const { numbering, incarnations } = this.#file;
    const isLast = process === numbering.id;
    // A spool that was away while another process wrote: its rows get an id of their own, the same in each copy of the folder.
    const isBehind = !isLast && incarnations.some(({ id }) => id === process);
    const id = isBehind ? derivedId(`${process} ${this.#group}`) : process;
    // A process whose groups are all in the spool has written nothing.
    const nextN = isLast ? numbering.nextN : 1;
    return { incarnation: this.#file.continueIncarnation({ id, nextN }), nextN };
  }

  #takeHeld(): void {
    if (this.#held.length === 0) return;
    const taken = new Sums();
    for (const group of this.#held) this.#take(group, this.#own, taken);
    this.#held = [];
    this.#onTaken(taken.all());
  }

  /** Queues the rows of a group; those that are invalid are dropped. `taken` gets what they all add. */
  #take(group: UsageGroup, numberer: Numberer, taken: Sums): void {
    const { incarnation } = numberer;
    const { replica } = this.#file.ledger;
    const head = `{"v":1,"incarnation":"${incarnation.id}","replica":"${replica}","n":`;
    for (const text of rowsIn(group)) {
      const entries = entriesOfPlainRow(text);
      if (entries === undefined) this.#try(() => this.#takeParsed(text, numberer, taken));
      else {
        taken.add(entries);
        this.#sums.add(entries);
        const n = numberer.nextN++;
        this.#queue.push({ incarnation, n, body: `${head}${n},${text.slice(1)}` });
      }
    }
  }

  #takeParsed(text: string, numberer: Numberer, taken: Sums): void {
    const parsed = parsedRow(text);
    if (parsed === undefined) {
      this.#drop('a row of usage is not JSON');
      return;
    }
    const { admittedMs, unfinished, ...usage } = parsed;
    const { incarnation, nextN: n } = numberer;
    const envelope = { v: 1, incarnation: incarnation.id, replica: this.#file.ledger.replica, n };
    const row = usageRowSchema.safeParse({ ...envelope, ...usage });
    const entries = entriesOf(usage, { admittedMs, unfinished });
    taken.add(entries);
    if (!row.success) this.#drop(`a row of usage is invalid at ${row.error.issues[0]?.path.join('.')}`);
    else this.#sums.add(entries);
    if (!row.success || unfinished) return;
    this.#queue.push({ incarnation, n, body: JSON.stringify(row.data) });
    numberer.nextN++;
  }

  #write(): boolean {
    const { retentionMs = retentionMsDefault, rowsMax = rowsMaxDefault } = this.#options;
    const hadRows = this.#queue.length > 0;
    const entries = this.#sums.all();
    try {
      const retention = { sinceMs: this.#now() - retentionMs, rowsMax };
      const numbering = { id: this.incarnation, nextN: this.#own.nextN };
      const [rows, shipped, groupsTaken] = [this.#queue, this.#shipped, this.#group];
      this.#file.write({ rows, entries, shipped, groupsTaken, numbering }, retention, this.#now());
    } catch (error) {
      this.#onWriteFailed(error);
      return false;
    }
    this.#queue = [];
    this.#sums = new Sums();
    this.unwritten = 0;
    this.#shipped = [];
    this.#retryMs = 0;
    if (entries.length > 0) this.#onCounted(entries);
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

  #drop(reason: string): void {
    this.dropped++;
    this.#report(new Error(reason));
  }

  #dropGroup(group: UsageGroup): void {
    const taken = new Sums();
    for (const text of rowsIn(group)) {
      const row = parsedRow(text);
      if (row !== undefined) taken.add(entriesOf(row, row));
    }
    this.dropped += group.count;
    this.#report(new Error('the outbox is full or closed'));
    this.#onTaken(taken.all());
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
    return (this.#options.now ?? Date.now)();
  }
}
