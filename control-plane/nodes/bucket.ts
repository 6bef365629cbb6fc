/** Something that may happen so often: a number at once, then so many a second. Refuses what is more; never waits. */

export interface BucketSize {
  readonly burst: number;
  readonly perSecond: number;
}

export class Bucket {
  readonly #size: BucketSize;
  #left: number;
  #filledMs: number;

  /** `nowMs` is monotonic, here and below. */
  constructor(size: BucketSize, nowMs = performance.now()) {
    this.#size = size;
    this.#left = size.burst;
    this.#filledMs = nowMs;
  }

  /** True where it may happen now, and then it counts. */
  take(nowMs = performance.now()): boolean {
    const { burst, perSecond } = this.#size;
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#filledMs) / 1000) * perSecond);
    this.#filledMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
