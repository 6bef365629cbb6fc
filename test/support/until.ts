import { scaledMs } from './budget.ts';

/** Polls until the condition holds, and returns the milliseconds that it took; rejects after the (scaled) time-out. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  timeoutMs = 20_000,
): Promise<number> {
  const startMs = performance.now();
  while (!(await isSo())) {
    if (performance.now() - startMs > scaledMs(timeoutMs)) throw new Error(`not in ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return Math.round(performance.now() - startMs);
}
