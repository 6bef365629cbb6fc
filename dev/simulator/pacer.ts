/**
 * One timer for all streams of a node: steps that are due within one interval run together.
 * Ten thousand streams cost one timer, not ten thousand.
 */

/** Steps are due at multiples of this, ms. */
const grainMs = 4;

export class Pacer {
  readonly #due = new Map<number, (() => void)[]>();
  #timer: NodeJS.Timeout | undefined;
  #armedFor = Number.POSITIVE_INFINITY;

  /** Runs `step` once, when `performance.now()` has reached `dueMs` or up to one grain later. */
  at(dueMs: number, step: () => void): void {
    const grain = Math.ceil(dueMs / grainMs);
    const steps = this.#due.get(grain);
    if (steps === undefined) this.#due.set(grain, [step]);
    else steps.push(step);
    if (grain < this.#armedFor) this.#arm(grain);
  }

  /** Forgets every step. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#due.clear();
    this.#armedFor = Number.POSITIVE_INFINITY;
  }

  #arm(grain: number): void {
    clearTimeout(this.#timer);
    this.#armedFor = grain;
    const waitMs = Math.ceil(grain * grainMs - performance.now());
    this.#timer = setTimeout(() => this.#run(), Math.max(waitMs, 0));
  }

  #run(): void {
    const now = Math.floor(performance.now() / grainMs);
    this.#armedFor = Number.POSITIVE_INFINITY;
    for (const grain of [...this.#due.keys()].filter((key) => key <= now).sort((a, b) => a - b)) {
      const steps = this.#due.get(grain) ?? [];
      this.#due.delete(grain);
      for (const step of steps) step();
    }
    let next = Number.POSITIVE_INFINITY;
    for (const grain of this.#due.keys()) next = Math.min(next, grain);
    if (next < this.#armedFor) this.#arm(next);
  }
}
