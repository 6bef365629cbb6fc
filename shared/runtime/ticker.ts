/**
 * A coarse clock for many waits, instead of a timer for each. It counts only the time in which this process ran, and checks
 * the waits only after sockets were read, so that data which arrived during a stall is handled before a wait can end. A wait
 * may end up to one tick late. The timer never keeps a process alive.
 */

export interface Timed {
  /** Position in the ticker's list, maintained by the ticker; -1 while not waiting. */
  index: number;
  /** Called at every tick with the ticker's time. */
  tick(nowMs: number): void;
}

/** Largest delay of a tick that is counted. A tick that is later still was late because this process did not run. */
const lateMsMax = 250;

export class Ticker {
  readonly #tickMs: number;
  /** Unordered. A Set would keep resizing its hash table, which inflates the heap's old space. */
  readonly #waiting: Timed[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Time counted up to the last tick. */
  #countedMs = 0;
  #tickedMs = 0;

  constructor(tickMs: number) {
    this.#tickMs = tickMs;
  }

  /** Number of waits, for tests and metrics. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Monotonic time in ms, without stalls of this process and without time in which nothing waited. */
  get nowMs(): number {
    if (this.#timer === undefined) return this.#countedMs;
    return this.#countedMs + Math.min(performance.now() - this.#tickedMs, this.#tickMs + lateMsMax);
  }

  /** Adds a wait. Idempotent. */
  add(timed: Timed): void {
    if (timed.index >= 0) return;
    timed.index = this.#waiting.push(timed) - 1;
    if (this.#timer !== undefined) return;
    this.#tickedMs = performance.now();
    this.#timer = setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  /** Removes a wait; the last one moves into its position. Idempotent. */
  delete(timed: Timed): void {
    if (timed.index < 0) return;
    const last = this.#waiting.pop() as Timed;
    if (last !== timed) {
      this.#waiting[timed.index] = last;
      last.index = timed.index;
    }
    timed.index = -1;
  }

  /** After a stall outside of timers, timers run before sockets are read. setImmediate callbacks run after both. */
  #tick(): void {
    const nowMs = this.nowMs;
    this.#countedMs = nowMs;
    this.#tickedMs = performance.now();
    // Stop the timer here, not when the last wait leaves: most waits are brief, and a timer for each would cost more.
    if (this.#waiting.length === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    setImmediate(() => this.#askAll(nowMs));
  }

  /** Iterates from the end: if a wait is removed meanwhile, its position is taken by one that was already called. */
  #askAll(nowMs: number): void {
    for (let index = this.#waiting.length - 1; index >= 0; index--) this.#waiting[index]?.tick(nowMs);
  }
}
