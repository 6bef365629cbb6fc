/** Sleeps and computes growing random pauses between retries. Time and randomness are arguments, so tests need not wait. */

/** Source of time and randomness. Tests pass their own. */
export interface Clock {
  /** Returns the monotonic time in ms. */
  now(): number;
  /** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Random number from 0 (inclusive) to 1 (exclusive). */
  random(): number;
}

export const systemClock: Clock = { now: () => performance.now(), sleep, random: Math.random };

/** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Resolves to the promise's result, or to 'late' after the timeout or on abort. A later result is discarded. */
export async function within<Result>(
  pending: Promise<Result>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Result | 'late'> {
  const settled = new AbortController();
  const ending = signal ? AbortSignal.any([signal, settled.signal]) : settled.signal;
  const late = sleep(Math.max(timeoutMs, 0), ending).then(() => 'late' as const);
  try {
    return await Promise.race([pending, late]);
  } finally {
    settled.abort();
  }
}

export interface BackoffOptions {
  /** Upper bound in ms of the first pause. The bound doubles with each further pause. */
  readonly minMs: number;
  /** Upper bound in ms of all pauses. */
  readonly maxMs: number;
  readonly clock?: Clock;
}

/** Computes the pauses between attempts of an operation that is retried. */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #clock: Clock;
  #failures = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Call it after a success, so that the next pause is short again. */
  reset(): void {
    this.#failures = 0;
  }

  /** Waits for a random time between half and all of the current bound. Ends early if the signal aborts. */
  pause(signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(this.nextMs(), signal);
  }

  /** Counts a failure and returns the length of the next pause in ms. */
  nextMs(): number {
    const { minMs, maxMs } = this.#options;
    const longestMs = Math.min(minMs * 2 ** Math.min(this.#failures++, 30), maxMs);
    return longestMs * (0.5 + this.#clock.random() / 2);
  }
}
