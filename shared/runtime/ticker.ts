/**
 * One coarse clock for many waits, instead of a timer for each of them; on a node, for example, or on the frames of an agent.
 * It counts the time in which this process ran, and asks the waits only after sockets were read: what arrived during a stall
 * comes before a wait can end. A wait therefore ends up to one tick late. The timer runs only while something waits, and never keeps a process alive.
 */

export interface Timed {
  /** Its index among those that wait, maintained by the ticker; -1 before and after. */
  index: number;
  /** `nowMs` is that of the ticker. */
  tick(nowMs: number): void;
}

/** A tick that is later was late because this process did not run. */
const lateMsMax = 250;

export class Ticker {
  readonly #tickMs: number;
  /** Without order. A Set keeps resizing its hash table, which inflates the old space. */
  readonly #waiting: Timed[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Up to the last tick. */
  #countedMs = 0;
  #tickedMs = 0;

  constructor(tickMs: number) {
    this.#tickMs = tickMs;
  }

  /** What waits now, for tests and metrics. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Monotonic; without stalls of this process, and without the time in which nothing waited. */
  get nowMs(): number {
    if (this.#timer === undefined) return this.#countedMs;
    return this.#countedMs + Math.min(performance.now() - this.#tickedMs, this.#tickMs + lateMsMax);
  }

  /** Again is harmless. */
  add(timed: Timed): void {
    if (timed.index >= 0) return;
    timed.index = this.#waiting.push(timed) - 1;
    if (this.#timer !== undefined) return;
    this.#tickedMs = performance.now();
    this.#timer = setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  /** The last one takes its place. Again is harmless. */
  delete(timed: Timed): void {
    if (timed.index < 0) return;
    const last = this.#waiting.pop() as Timed;
    if (last !== timed) {
      this.#waiting[timed.index] = last;
      last.index = timed.index;
    }
    timed.index = -1;
  }

  /** After a stall outside of timers, timers run before sockets are read; what setImmediate calls runs after that. */
  #tick(): void {
    const nowMs = this.nowMs;
    this.#countedMs = nowMs;
    this.#tickedMs = performance.now();
    // Here and not when the last one leaves: a wait of most requests is short, and a timer for each would cost more than it.
    if (this.#waiting.length === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    setImmediate(() => this.#askAll(nowMs));
  }

  /** From the end, because one that is removed here is replaced by one that was called already. */
  #askAll(nowMs: number): void {
    for (let index = this.#waiting.length - 1; index >= 0; index--) this.#waiting[index]?.tick(nowMs);
  }
}
