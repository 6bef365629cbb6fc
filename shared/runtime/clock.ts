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
