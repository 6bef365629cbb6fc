/**
 * Rows of this process that are not on the disk yet. While the files are behind, new requests wait. They are refused once the
 * database has accepted no row for `waitingMsMax`, or too many rows wait for it.
 */
/** New requests wait from this number of rows in no file, or if no row has reached a file for this time. */
const unkeptRows = 1_000;
const unkeptMs = 350;
/** New requests wait from this number of rows that a power cut may lose, or if none was saved for this time. */
const unwrittenRows = 4_000;
const unwrittenMs = 2_000;
/** Rows not in the database yet above which requests are refused; requests in flight can still be recorded. */
const waitingRowsMax = 5_000;
/** Requests are refused if the database has accepted no row for this time, in ms. */
const waitingMsMax = 3_000;
/** Time in ms after `waitingMsMax` in which the worker's state may still arrive. */
const stateGraceMs = 100;

interface CatchUp {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export class Backlog {
  /** Rows recorded so far. */
  recorded = 0;
  readonly #monotonicMs: () => number;
  /** Rows in a file, which the end of the process does not lose. */
  #kept = 0;
  /** Time at which the oldest row in no file was recorded, or a row last reached a file. */
  #unkeptSinceMs = 0;
  /** Rows that are counted in the database, or were refused. */
  #durable = 0;
  /** Time at which the oldest row not in the database was recorded, or a row last reached it. */
  #waitingSinceMs = 0;
  /** The last wait that was too long, and when it was first seen. */
  #late: { readonly sinceMs: number; readonly seenMs: number } | undefined;
  /** Whether the worker reports that it cannot keep more rows, and since when. */
  #isWorkerFull = false;
  #workerFullSinceMs = Number.POSITIVE_INFINITY;
  /** Wait of new requests while the files are behind. */
  #caughtUp: CatchUp | undefined;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Whether usage can no longer be recorded safely. */
  get isFull(): boolean {
    const waiting = this.recorded - this.#durable;
    if (waiting >= waitingRowsMax) return true;
    if (this.#monotonicMs() - this.#workerFullSinceMs > waitingMsMax) return true;
    return waiting > 0 && this.#isLate();
  }

  /** True if the files keep up; otherwise resolves once they do. Requests wait until `isFull` refuses them. */
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

  /** Notes that this number of this process's rows is in the log. */
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

  /** Whether the disk is late. After a stall the worker's state may still be queued, so `stateGraceMs` passes first. */
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

  /** Wait that all waiting requests share. It resolves a little after `isFull` must have been decided. */
  #wait(): CatchUp {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      let late = setTimeout(() => {
        // Wait that all requests share. It resolves a little after `isFull` must have been decided.
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
