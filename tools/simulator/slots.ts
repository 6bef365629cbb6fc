/** Slots for the sequences that an engine decodes concurrently. Further requests wait in a bounded queue. */

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

  /** Runs `start` once a slot is free. The request must then call `release`. Returns false if too many are waiting. */
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

  /** Releases a slot, or passes it on to the request that has waited longest. */
  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#free += 1;
      this.#running -= 1;
    } else next();
  }

  /** Removes a request from the queue. Returns false if it was not waiting. */
  leave(start: () => void): boolean {
    const at = this.#waiting.indexOf(start);
    if (at >= 0) this.#waiting.splice(at, 1);
    return at >= 0;
  }
}
