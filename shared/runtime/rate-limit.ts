/** Token bucket: allows `burst` at once, then `perSecond`. Refuses the excess; never delays. The default cost is 1. */

export interface RateLimitSize {
  readonly burst: number;
  readonly perSecond: number;
}

export class RateLimit {
  readonly #size: RateLimitSize;
  #tokens: number;
  #filledMs: number;

  /** `nowMs` is monotonic in all methods. */
  constructor(size: RateLimitSize, nowMs = performance.now()) {
    this.#size = size;
    this.#tokens = size.burst;
    this.#filledMs = nowMs;
  }

  /** Returns true and counts the event if it is allowed now. */
  tryAcquire(nowMs = performance.now(), cost = 1): boolean {
    const { burst, perSecond } = this.#size;
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#filledMs) / 1000) * perSecond);
    this.#filledMs = nowMs;
    if (this.#tokens < cost) return false;
    this.#tokens -= cost;
    return true;
  }

  /** Counts an event that cannot be refused, so that later ones wait longer. */
  charge(cost: number): void {
    this.#tokens = Math.max(-this.#size.burst, this.#tokens - cost);
  }
}
