/**
 * Tracks the usage rows of this process that are not on disk yet. While the files are behind, new requests wait. They are
 * refused if the database has stored no row for `waitingMsMax`, or if too many rows wait for it.
 */
/** New requests wait if so many usage rows are in no file yet, or if no row has reached a file for so many ms. */
const unkeptRows = 1_000;
const unkeptMs = 350;
/** New requests wait if a power cut could lose so many rows, or if none has reached the database for so many ms. */
const unwrittenRows = 4_000;
const unwrittenMs = 2_000;
/** Requests are refused if so many rows are not in the database yet. Requests in flight can still be recorded. */
const waitingRowsMax = 5_000;
/** Requests are refused if the database has stored no row for this time in ms. */
const waitingMsMax = 3_000;
/** Time in ms that the worker's message about a stored row may take to arrive, in addition to `waitingMsMax`. */
const stateGraceMs = 100;

interface CatchUp {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export class Backlog {
  /** Number of rows that this process has recorded so far. */
  recorded = 0;
  readonly #monotonicMs: () => number;
  /** Number of these rows that are in a file, so that they are not lost when the process ends. */
  #kept = 0;
  /** Time when a row last reached a file, or when the oldest row in no file was recorded, whichever is later. */
  #unkeptSinceMs = 0;
  /** Number of these rows that the database has counted or refused. */
  #durable = 0;
  /** Time when a row last reached the database, or when the oldest row outside it was recorded, whichever is later. */
  #waitingSinceMs = 0;
  /** Start of the database's last delay that was too long, and the time at which this delay was first noticed. */
  #late: { readonly sinceMs: number; readonly seenMs: number } | undefined;
  /** Whether the worker reports that it cannot take more rows. `#workerFullSinceMs` says since when. */
  #isWorkerFull = false;
  #workerFullSinceMs = Number.POSITIVE_INFINITY;
  /** Promise that all waiting requests share, or undefined while no request waits. */
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

  /** Returns true if the files keep up with the rows. Otherwise, resolves when they do, or when requests are refused. */
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

  /** Must be called when the first `rows` rows of this process are in the row log. */
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

  /** Whether the database has stored no row for too long. Allows some time for the worker's message to arrive. */
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

  /** Creates the promise that all waiting requests share. It resolves, at the latest, after `isFull` has become true. */
  #wait(): CatchUp {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      let late = setTimeout(() => {
        // This call starts the grace period for the worker's message. The second timer ends after the grace period.
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
