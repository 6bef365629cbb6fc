/** Clocks of a process. Only this file reads the wall clock, because that clock may be wrong or change at any time. */

/** Time since the machine started, in ms. Nobody can set this clock, and all processes on the machine share it. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** Time according to this machine's wall clock, in ms since 1970. */
export function wallClockMs(): number {
  return Date.now();
}

/** Returns the log's time, or `earlierMs` if `wallMs` is closer to `earlierMs` than both are to the log's time. */
export function agreedMs(logMs: number, wallMs: number, earlierMs: number): number {
  const isWrong =
    Math.abs(wallMs - earlierMs) < Math.min(Math.abs(logMs - wallMs), Math.abs(logMs - earlierMs));
  return isWrong ? earlierMs : logMs;
}

/** Largest difference in ms between the log's time and the wall clock for which the wall clock is used. */
const toleranceMs = 30_000;

/**
 * Tracks the log's time in a process that reads the log. It is the time of the last record, unless two other clocks agree on
 * another time: the wall clock, and the earlier log time continued by the monotonic clock. So one wrong clock cannot change
 * it.
 */
export class ReadTime {
  readonly #wallMs: () => number;
  readonly #monotonicMs: () => number;
  #aheadMs: number | undefined;

  constructor(wallMs: () => number = wallClockMs, nowMs: () => number = monotonicMs) {
    this.#wallMs = wallMs;
    this.#monotonicMs = nowMs;
  }

  now(): number {
    const wallMs = this.#wallMs();
    if (this.#aheadMs === undefined) return wallMs;
    const readMs = this.#monotonicMs() + this.#aheadMs;
    return Math.abs(readMs - wallMs) > toleranceMs ? readMs : wallMs;
  }

  /**
   * Returns the log's time after reading a record that the log dates `logMs` and its writer dates `writerMs`. `writerMs`
   * counts as the earlier log time if there is none yet, or if it agrees with the wall clock.
   */
  read(logMs: number, writerMs: number): number {
    const wallMs = this.#wallMs();
    const isEarly = this.#aheadMs === undefined || Math.abs(writerMs - wallMs) <= toleranceMs;
    const readMs = agreedMs(logMs, wallMs, isEarly ? writerMs : this.now());
    this.#aheadMs = readMs - this.#monotonicMs();
    return readMs;
  }
}

/** Time by which old records are removed. It never advances faster than time passes, so a clock that jumps removes none. */
export class RemovalTime {
  readonly #monotonicMs: () => number;
  #first: { readonly knownMs: number; readonly nowMs: number } | undefined;

  constructor(nowMs: () => number = monotonicMs) {
    this.#monotonicMs = nowMs;
  }

  /** Returns the present removal time. `knownMs` is the log's time, or the earliest of several clocks, in ms since 1970. */
  limit(knownMs: number): number {
    const nowMs = this.#monotonicMs();
    this.#first ??= { knownMs, nowMs };
    return Math.min(knownMs, this.#first.knownMs + nowMs - this.#first.nowMs);
  }
}
