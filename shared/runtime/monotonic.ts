/** Milliseconds since the machine started, by the clock that nobody sets and that all its processes share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
