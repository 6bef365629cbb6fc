/**
 * A coarse clock for many timeouts, which avoids a timer for each. It counts only time during which this process ran. It
 * checks timeouts only after sockets were read, so that data that arrived while the process was blocked is handled before a
 * timeout can expire. A timeout may expire up to one tick late. The clock's own timer never keeps a process alive.
 */

export interface Timed {
  /** Index in the ticker's list, set by the ticker. -1 while not in the list. */
  index: number;
  /** Called at every tick with the ticker's current time. */
  tick(nowMs: number): void;
}

/** Longest delay of a tick that counts as elapsed time, in ms. During any further delay, this process did not run. */
const lateMsMax = 250;

export class Ticker {
  readonly #tickMs: number;
  /** Waiters in no particular order. A Set would keep resizing its hash table, which inflates the heap's old space. */
  readonly #waiting: Timed[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Time in ms counted up to the last tick. */
  #countedMs = 0;
  #tickedMs = 0;

  constructor(tickMs: number) {
    this.#tickMs = tickMs;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Time in ms that has passed, not counting time when this process was blocked or nothing was waiting. */
  get nowMs(): number {
    if (this.#timer === undefined) return this.#countedMs;
    return this.#countedMs + Math.min(performance.now() - this.#tickedMs, this.#tickMs + lateMsMax);
  }

  /** Adds a waiter. Has no effect if the waiter was already added. */
  add(timed: Timed): void {
    if (timed.index >= 0) return;
    timed.index = this.#waiting.push(timed) - 1;
    if (this.#timer !== undefined) return;
    this.#tickedMs = performance.now();
    this.#timer = setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  /** Removes a waiter, and moves the last waiter to its index. Has no effect if the waiter was already removed. */
  delete(timed: Timed): void {
    if (timed.index < 0) return;
    const last = this.#waiting.pop() as Timed;
    if (last !== timed) {
      this.#waiting[timed.index] = last;
      last.index = timed.index;
    }
    timed.index = -1;
  }

  /** Calls the waiters in a `setImmediate` callback, because after a long block timers may run before sockets are read. */
  #tick(): void {
    const nowMs = this.nowMs;
    this.#countedMs = nowMs;
    this.#tickedMs = performance.now();
    // Stop the timer only here. Most waiters stay only briefly, and stopping and starting a timer for each would cost more.
    if (this.#waiting.length === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    setImmediate(() => this.#askAll(nowMs));
  }

  /** Iterates backwards, so that if a waiter is removed meanwhile, the one moved to its index has already been called. */
  #askAll(nowMs: number): void {
    for (let index = this.#waiting.length - 1; index >= 0; index--) this.#waiting[index]?.tick(nowMs);
  }
}
