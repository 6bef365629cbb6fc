import { scaledMs } from './budget.ts';

/**
 * Delays between polls. They are short at first, to notice quick results, and grow, so that polling does not slow down long
 * work.
 */
const pauseMs = { first: 5, most: 50, growth: 1.2 };

/**
 * Polls until the condition holds and returns the elapsed time in ms. Rejects after the time-out, which is scaled for slow
 * machines.
 */
export async function until(isSo: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<number> {
  const startMs = performance.now();
  let nextMs = pauseMs.first;
  while (!(await isSo())) {
    if (performance.now() - startMs > scaledMs(timeoutMs)) throw new Error(`not in ${timeoutMs} ms: ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, nextMs));
    nextMs = Math.min(pauseMs.most, nextMs * pauseMs.growth);
  }
  return Math.round(performance.now() - startMs);
}

/**
 * Resolves with the result of the work. Rejects if the work takes longer than the time-out, which is scaled for slow
 * machines.
 */
export async function within<Result>(timeoutMs: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${timeoutMs} ms`)), scaledMs(timeoutMs));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
