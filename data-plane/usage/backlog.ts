/**
 * Tracks the usage rows of this process that are not on disk yet. While the files are behind, new requests wait. They are
 * refused if the database has stored no row for `waitingMsMax`, or if too many rows wait for it.
 */
/** New requests wait if this many rows are in no file yet, or if no row has reached a file for this time in ms. */
const unkeptRows = 1_000;
const unkeptMs = 350;
/** New requests wait if a power cut could lose this many rows, or if none has reached the database for this time in ms. */
const unwrittenRows = 4_000;
const unwrittenMs = 2_000;
/** Number of rows outside the database at which requests are refused. Requests in flight can still be recorded. */
const waitingRowsMax = 5_000;
/** Requests are refused if the database has stored no row for this time in ms. */
const waitingMsMax = 3_000;
/** Time in ms after `waitingMsMax` during which a delayed message from the worker may still arrive. */
const stateGraceMs = 100;

interface CatchUp {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export class Backlog {
  /** Number of rows recorded so far. */
  recorded = 0;
  readonly #monotonicMs: () => number;
  /** Number of rows that are in a file, so that they are not lost when the process ends. */
  #kept = 0;
  /** Time at which the oldest row that is in no file was recorded, or at which a row last reached a file. */
  #unkeptSinceMs = 0;
  /** Number of rows that the database has counted or refused. */
  #durable = 0;
  /** Time at which the oldest row outside the database was recorded, or at which a row last reached it. */
  #waitingSinceMs = 0;
  /** Start of the last wait that was too long, and the time at which this was first noticed. */
  #late: { readonly sinceMs: number; readonly seenMs: number } | undefined;
  /** Whether the worker reports that it cannot take more rows. `#workerFullSinceMs` says since when. */
  #isWorkerFull = false;
  #workerFullSinceMs = Number.POSITIVE_INFINITY;
  /** Promise that all waiting requests share. Undefined while none is waiting. */
  #caughtUp: CatchUp | undefined;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Whether usage can no longer be recorded safely, so that requests must be refused. */
  get isFull(): boolean {
    const waiting = this.recorded - this.#durable;
    if (waiting >= waitingRowsMax) return true;
    if (this.#monotonicMs() - this.#workerFullSinceMs > waitingMsMax) return true;
    return waiting > 0 && this.#isLate();
  }

  /** Returns true if the files keep up. Otherwise, resolves when they do, or when `isFull` refuses requests. */
  awaitMeterCapacity(): true | Promise<void> {
    if (!this.#isBehind() || this.isFull) return true;
    this.#caughtUp ??= this.#wait();
    return this.#caughtUp.promise;
  }

  add(): void {
    const nowMs = this.#monotonicMs();
    if (this.recorded === this.#kept) this.#unkeptSinceMs = nowMs;
    if (this.recorded === this.#durable) this.#waitingSinceMs = nowMs;
    this.recorded++;
  }

  /** Must be called when this many of the process's rows are in the row log. */
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

  /** Whether the database has stored nothing for too long. Allows some time for a delayed message from the worker. */
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

  /** Creates the promise that all waiting requests share. It resolves a little after `isFull` must have been decided. */
  #wait(): CatchUp {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      let late = setTimeout(() => {
        // Call this now, so that the grace period begins. The second timer fires after the grace period.
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
