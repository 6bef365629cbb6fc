/**
 * The sequences that an engine decodes concurrently; further requests wait in a bounded queue.
 */

/** Requests that may wait. */
const waitingMax = 10_000;

export class Slots {
  #free: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  get running(): number {
    return this.#running;
  }
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs `start` now or when a slot is free; false if too many wait already. The one that started releases. */
  acquire(start: () => void): boolean {
    if (this.#free > 0) {
      this.#free -= 1;
      this.#running += 1;
      start();
      return true;
    }
    if (this.#waiting.length >= waitingMax) return false;
    this.#waiting.push(start);
    return true;
  }

  /** Gives a slot back to the one who waits longest. */
  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#free += 1;
      this.#running -= 1;
    } else next();
  }

  /** Takes one that waits out of the queue; false if it did not wait. */
  leave(start: () => void): boolean {
    const at = this.#waiting.indexOf(start);
    if (at >= 0) this.#waiting.splice(at, 1);
    return at >= 0;
  }
}
