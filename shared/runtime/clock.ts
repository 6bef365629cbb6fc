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
