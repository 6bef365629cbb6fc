import { scaledMs } from './budget.ts';

/**
 * What is soon so is soon seen. What takes long is asked for less often, and what costs much to ask is not asked all the
 * time: it would delay what it asks for, and everything that runs at the same time.
 */
const pauseMs = { least: 5, most: 200, ofWaited: 0.1 };

/** Polls until the condition holds, and returns the milliseconds that it took; rejects after the (scaled) time-out. */
export async function until(isSo: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<number> {
  const startMs = performance.now();
  for (;;) {
    const askedMs = performance.now();
    const isNow = await isSo();
    const nowMs = performance.now();
    if (isNow) return Math.round(nowMs - startMs);
    if (nowMs - startMs > scaledMs(timeoutMs)) throw new Error(`not in ${timeoutMs} ms: ${isSo}`);
    const restMs = Math.max(pauseMs.least, nowMs - askedMs, (nowMs - startMs) * pauseMs.ofWaited);
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs.most, restMs)));
  }
}

/** Resolves with the result of the work, and rejects where that takes longer than the (scaled) time-out. */
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
