/**
 * The rows of this process that are not on the disk yet. While the files are behind, new requests wait; they are refused
 * once the database has accepted no row for `waitingMsMax`, or too many wait for it.
 */
/** From so many rows in no file, or once none came to one for so long, new requests wait. */
const unkeptRows = 1_000;
const unkeptMs = 350;
/** The same of rows that are not counted in the database: a power cut may lose them. */
const unwrittenRows = 4_000;
const unwrittenMs = 2_000;
/** Rows not in the database yet above which requests are refused; requests in flight can still be recorded. */
const waitingRowsMax = 5_000;
/** Requests are refused once the database has accepted no row for longer, ms. */
const waitingMsMax = 3_000;
/** How long after that the worker's state may still arrive, ms. */
const stateGraceMs = 100;

interface CatchUp {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export class Backlog {
  /** Rows recorded so far. */
  recorded = 0;
  readonly #monotonicMs: () => number;
  /** Rows that are in a file: the end of the process does not lose them. */
  #kept = 0;
  /** When the oldest row that is in no file was recorded, or when rows last came to one. */
  #unkeptSinceMs = 0;
  /** Rows that are counted in the database, or were refused. */
  #durable = 0;
  /** When the oldest row that is not in the database was recorded, or when rows last came to it. */
  #waitingSinceMs = 0;
  /** The wait that was found too long, and when that was first seen. */
  #late: { readonly sinceMs: number; readonly seenMs: number } | undefined;
  /** The worker reports that it can keep no more rows; since when. */
  #isWorkerFull = false;
  #workerFullSinceMs = Number.POSITIVE_INFINITY;
  /** New requests wait for this while the files are behind. */
  #caughtUp: CatchUp | undefined;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** True where no further usage can be recorded safely. */
  get isFull(): boolean {
    const waiting = this.recorded - this.#durable;
    if (waiting >= waitingRowsMax) return true;
    if (this.#monotonicMs() - this.#workerFullSinceMs > waitingMsMax) return true;
    return waiting > 0 && this.#isLate();
  }

  /** True while the files keep up; else resolves once they do, or once `isFull` decides: back-pressure before refusals. */
  awaitMeterCapacity(): true | Promise<void> {
    if (!this.#isBehind() || this.isFull) return true;
    this.#caughtUp ??= this.#wait();
    return this.#caughtUp.promise;
  }

  /** One more row is recorded. */
  add(): void {
    const nowMs = this.#monotonicMs();
    if (this.recorded === this.#kept) this.#unkeptSinceMs = nowMs;
    if (this.recorded === this.#durable) this.#waitingSinceMs = nowMs;
    this.recorded++;
  }

  /** So many rows of this process are in the log. */
  onKept(rows: number): void {
    if (rows <= this.#kept) return;
    this.#kept = rows;
    this.#unkeptSinceMs = this.#monotonicMs();
    this.#releaseIfCaughtUp();
  }

  onState({ durable, isFull }: { readonly durable: number; readonly isFull: boolean }): void {
    const nowMs = this.#monotonicMs();
    if (durable > this.#durable) this.#waitingSinceMs = nowMs;
    this.#durable = durable;
    if (!isFull) this.#workerFullSinceMs = Number.POSITIVE_INFINITY;
    else if (!this.#isWorkerFull) this.#workerFullSinceMs = nowMs;
    this.#isWorkerFull = isFull;
    this.onKept(durable);
    this.#releaseIfCaughtUp();
  }

  /** After an event-loop stall the worker's state may still be queued, so `stateGraceMs` passes before the disk is late. */
  #isLate(): boolean {
    const nowMs = this.#monotonicMs();
    const sinceMs = this.#waitingSinceMs;
    if (nowMs - sinceMs <= waitingMsMax) return false;
    if (this.#late?.sinceMs !== sinceMs) this.#late = { sinceMs, seenMs: nowMs };
    return nowMs - this.#late.seenMs > stateGraceMs;
  }

  #isBehind(): boolean {
    const unkept = this.recorded - this.#kept;
    const waiting = this.recorded - this.#durable;
    if (waiting === 0) return this.#isWorkerFull;
    if (unkept >= unkeptRows || waiting >= unwrittenRows) return true;
    const nowMs = this.#monotonicMs();
    if (unkept > 0 && nowMs - this.#unkeptSinceMs > unkeptMs) return true;
    return nowMs - this.#waitingSinceMs > unwrittenMs;
  }

  /** One promise for all requests that wait; it ends a little after `isFull` must have been decided. */
  #wait(): CatchUp {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      let late = setTimeout(() => {
        // The first look, from which the grace time counts.
        this.#isLate();
        late = setTimeout(() => this.#release(), 2 * stateGraceMs);
      }, waitingMsMax);
      resolve = () => {
        clearTimeout(late);
        done();
      };
    });
    return { promise, resolve };
  }

  #releaseIfCaughtUp(): void {
    if (this.#caughtUp !== undefined && !this.#isBehind()) this.#release();
  }

  #release(): void {
    const waiting = this.#caughtUp;
    this.#caughtUp = undefined;
    waiting?.resolve();
  }
}
