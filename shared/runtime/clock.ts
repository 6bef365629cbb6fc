/** The clocks of a process. Product code reads the wall clock only here, because it may be wrong or be set meanwhile. */

/** Milliseconds since the machine started. Nobody can set this clock, and all processes of the machine share it. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** This machine's wall clock, ms since 1970. */
export function wallClockMs(): number {
  return Date.now();
}

/** Returns the log's time, or `earlierMs` if the other two times are nearer to each other than to the log's time. */
export function agreedMs(logMs: number, wallMs: number, earlierMs: number): number {
  const isWrong =
    Math.abs(wallMs - earlierMs) < Math.min(Math.abs(logMs - wallMs), Math.abs(logMs - earlierMs));
  return isWrong ? earlierMs : logMs;
}

/** If the log's time and this machine's clock differ by no more than this, this machine's clock is used. */
const toleranceMs = 30_000;

/**
 * The log's time for a process that reads it: the record's time, unless the wall clock and the earlier log time continued by
 * the monotonic clock agree on another. So one wrong clock does not move it.
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
   * Returns the time of a record that the log dates `logMs`. `writerMs` is the time by which its writer counted. It replaces
   * this process's earlier log time if there is none yet or if it agrees with the wall clock.
   */
  read(logMs: number, writerMs: number): number {
    const wallMs = this.#wallMs();
    const isEarly = this.#aheadMs === undefined || Math.abs(writerMs - wallMs) <= toleranceMs;
    const readMs = agreedMs(logMs, wallMs, isEarly ? writerMs : this.now());
    this.#aheadMs = readMs - this.#monotonicMs();
    return readMs;
  }
}

/** Time by which records are removed. It never advances faster than time passes, so a jumping clock removes nothing. */
export class RemovalTime {
  readonly #monotonicMs: () => number;
  #first: { readonly knownMs: number; readonly nowMs: number } | undefined;

  constructor(nowMs: () => number = monotonicMs) {
    this.#monotonicMs = nowMs;
  }

  /** Returns the current removal time. `knownMs` is the log's time or the earliest of several clocks, in ms since 1970. */
  limit(knownMs: number): number {
    const nowMs = this.#monotonicMs();
    this.#first ??= { knownMs, nowMs };
    return Math.min(knownMs, this.#first.knownMs + nowMs - this.#first.nowMs);
  }
}
