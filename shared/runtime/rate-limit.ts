/** A token bucket. It allows `burst` at once, then `perSecond`, and refuses any excess. The default cost is 1. */

export interface RateLimitSize {
  readonly burst: number;
  readonly perSecond: number;
}

export class RateLimit {
  readonly #size: RateLimitSize;
  #tokens: number;
  #filledMs: number;

  /** In all methods, `nowMs` is a monotonic time. */
  constructor(size: RateLimitSize, nowMs = performance.now()) {
    this.#size = size;
    this.#tokens = size.burst;
    this.#filledMs = nowMs;
  }

  /** Counts an event and returns true, or returns false if the event is not allowed now. */
  tryAcquire(nowMs = performance.now(), cost = 1): boolean {
    const { burst, perSecond } = this.#size;
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#filledMs) / 1000) * perSecond);
    this.#filledMs = nowMs;
    if (this.#tokens < cost) return false;
    this.#tokens -= cost;
    return true;
  }

  /** Counts an event that has already happened, so that later ones must wait longer. */
  charge(cost: number): void {
    this.#tokens = Math.max(-this.#size.burst, this.#tokens - cost);
  }
}
