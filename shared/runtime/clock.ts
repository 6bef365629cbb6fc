/**
 * The clocks of a process. Product code reads the wall clock here and nowhere else, because it may be wrong, and may be set while the
 * process runs: what several machines count, compare or remove goes by the time of the log instead.
 */

/** Milliseconds since the machine started, by the clock that nobody sets and that all its processes share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** This machine's own idea of the time, ms since 1970. */
export function wallClockMs(): number {
  return Date.now();
}

/** The log's time, unless the two other clocks are nearer to each other than to it: then the log has leapt, and `earlierMs` counts. */
export function agreedMs(logMs: number, wallMs: number, earlierMs: number): number {
  const isWrong =
    Math.abs(wallMs - earlierMs) < Math.min(Math.abs(logMs - wallMs), Math.abs(logMs - earlierMs));
  return isWrong ? earlierMs : logMs;
}

/** A time that was read is this machine's, if the two differ by no more. */
const toleranceMs = 30_000;

/**
 * The time of a log for a process that reads it: the record's, unless the wall clock and this time as it was before, which continues by
 * the monotonic clock, agree on another one. So neither this machine nor a broker with a wrong clock moves it.
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
   * The time of a record that the log dates `logMs`. `writerMs`, the time by which its writer counts, stands in for the earlier time of
   * a process that has none, or that began with a record from before its writer knew that the log had leapt.
   */
  read(logMs: number, writerMs: number): number {
    const wallMs = this.#wallMs();
    const isEarly = this.#aheadMs === undefined || Math.abs(writerMs - wallMs) <= toleranceMs;
    const readMs = agreedMs(logMs, wallMs, isEarly ? writerMs : this.now());
    this.#aheadMs = readMs - this.#monotonicMs();
    return readMs;
  }
}

/**
 * The time by which records are removed: the known one, but ahead of the first known one by no more than has passed here since. A
 * clock that leaps forwards therefore removes nothing.
 */
export class RemovalTime {
  readonly #monotonicMs: () => number;
  #first: { readonly knownMs: number; readonly nowMs: number } | undefined;

  constructor(nowMs: () => number = monotonicMs) {
    this.#monotonicMs = nowMs;
  }

  /** `knownMs`: ms since 1970, as the log or the earlier of several clocks has it. */
  limit(knownMs: number): number {
    const nowMs = this.#monotonicMs();
    this.#first ??= { knownMs, nowMs };
    return Math.min(knownMs, this.#first.knownMs + nowMs - this.#first.nowMs);
  }
}
