/** A token bucket: `burst` at once, then `perSecond`. Refuses what is more; never waits. What it counts has a cost of 1 unless given. */

export interface RateLimitSize {
  readonly burst: number;
  readonly perSecond: number;
}

export class RateLimit {
  readonly #size: RateLimitSize;
  #tokens: number;
  #filledMs: number;

  /** `nowMs` is monotonic, here and below. */
  constructor(size: RateLimitSize, nowMs = performance.now()) {
    this.#size = size;
    this.#tokens = size.burst;
    this.#filledMs = nowMs;
  }

  /** True where it may happen now; then it is counted. */
  tryAcquire(nowMs = performance.now(), cost = 1): boolean {
    const { burst, perSecond } = this.#size;
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#filledMs) / 1000) * perSecond);
    this.#filledMs = nowMs;
    if (this.#tokens < cost) return false;
    this.#tokens -= cost;
    return true;
  }

  /** Counts what happens anyway: what comes after it waits longer. */
  charge(cost: number): void {
    this.#tokens = Math.max(-this.#size.burst, this.#tokens - cost);
  }
}
