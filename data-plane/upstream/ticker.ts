/**
 * One coarse clock for every wait on a node, instead of a timer for each event of each stream.
 * A wait therefore ends up to one tick late. The timer runs only while something waits, and never keeps a process alive.
 */

export interface Ticked {
  /** `nowMs` is monotonic, as of performance.now(). */
  tick(nowMs: number): void;
}

export class Ticker {
  readonly #tickMs: number;
  readonly #waiting = new Set<Ticked>();
  #timer: NodeJS.Timeout | undefined;

  constructor(tickMs: number) {
    this.#tickMs = tickMs;
  }

  /** What waits now, for tests and metrics. */
  get size(): number {
    return this.#waiting.size;
  }

  add(ticked: Ticked): void {
    this.#waiting.add(ticked);
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  delete(ticked: Ticked): void {
    this.#waiting.delete(ticked);
    if (this.#waiting.size > 0 || this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const nowMs = performance.now();
    for (const ticked of this.#waiting) ticked.tick(nowMs);
  }
}
