/** Sleeping, and growing random pauses between retries. Clock and randomness are arguments, so that tests need not wait. */

/** Time and randomness of a process; tests pass their own. */
export interface Clock {
  /** Monotonic time in ms. */
  now(): number;
  /** Resolves after `ms`, or earlier, without an error, when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Random number from 0 (inclusive) to 1 (exclusive). */
  random(): number;
}

export const systemClock: Clock = { now: () => performance.now(), sleep, random: Math.random };

/** Resolves after `ms`, or earlier, without an error, when the signal aborts. */
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

/** Resolves to the result, or to 'late' after the timeout or on abort. A later result is discarded. */
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
  /** Upper bound of the first pause in ms; it doubles with each further pause. */
  readonly minMs: number;
  /** Longest pause in ms. */
  readonly maxMs: number;
  readonly clock?: Clock;
}

/** Pauses between the attempts of one retried operation. */
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

  /** Waits before the next attempt, for half to all of the current length. Ends early if the signal aborts. */
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
