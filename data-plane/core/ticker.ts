/**
 * One coarse clock for every wait on a node, instead of a timer for each event of each stream.
 * A wait therefore ends up to one tick late. The timer runs only while something waits, and never keeps a process alive.
 */

export interface Timed {
  /** Its index among those that wait, maintained by the ticker; -1 before and after. */
  index: number;
  /** `nowMs` is monotonic, as of performance.now(). */
  tick(nowMs: number): void;
}

export class Ticker {
  readonly #tickMs: number;
  /** Without order. A Set keeps resizing its hash table, which inflates the old space. */
  readonly #waiting: Timed[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(tickMs: number) {
    this.#tickMs = tickMs;
  }

  /** What waits now, for tests and metrics. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Again is harmless. */
  add(timed: Timed): void {
    if (timed.index >= 0) return;
    timed.index = this.#waiting.push(timed) - 1;
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs).unref();
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
    if (this.#waiting.length > 0 || this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** From the end, because one that is removed here is replaced by one that was called already. */
  #tick(): void {
    const nowMs = performance.now();
    for (let index = this.#waiting.length - 1; index >= 0; index--) this.#waiting[index]?.tick(nowMs);
  }
}
