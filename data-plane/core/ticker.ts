/**
 * One coarse clock for every wait on a node, instead of a timer for each event of each stream.
 * A wait therefore ends up to one tick late. The timer runs only while something waits, and never keeps a process alive.
 */

export interface Ticked {
  /** Where it stands among those that wait, kept by the ticker; -1 before and after. */
  place: number;
  /** `nowMs` is monotonic, as of performance.now(). */
  tick(nowMs: number): void;
}

export class Ticker {
  readonly #tickMs: number;
  /** Without order. A Set would leave a worn-out table behind every few requests, which keeps them in memory longer. */
  readonly #waiting: Ticked[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(tickMs: number) {
    this.#tickMs = tickMs;
  }

  /** What waits now, for tests and metrics. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Again is harmless. */
  add(ticked: Ticked): void {
    if (ticked.place >= 0) return;
    ticked.place = this.#waiting.push(ticked) - 1;
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  /** The last one takes its place. Again is harmless. */
  delete(ticked: Ticked): void {
    if (ticked.place < 0) return;
    const last = this.#waiting.pop() as Ticked;
    if (last !== ticked) {
      this.#waiting[ticked.place] = last;
      last.place = ticked.place;
    }
    ticked.place = -1;
    if (this.#waiting.length > 0 || this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** From the end, because those that end their wait here are replaced by ones that were asked already. */
  #tick(): void {
    const nowMs = performance.now();
    for (let place = this.#waiting.length - 1; place >= 0; place--) this.#waiting[place]?.tick(nowMs);
  }
}
