import { scaledMs } from './budget.ts';

/** Delays between polls. They start short to notice quick results and grow so that polling does not slow down long work. */
const pauseMs = { first: 5, most: 50, growth: 1.2 };

/** Polls until the condition holds and returns the elapsed ms. Rejects after the (scaled) time-out. */
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

/** Resolves with the result of the work. Rejects if that takes longer than the (scaled) time-out. */
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
