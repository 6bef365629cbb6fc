/** Sleeping, and the growing random pause before a retry. Clock and random are arguments, so that tests need not wait. */

/** Time and chance as a process has them; tests pass their own. */
export interface Clock {
  /** Monotonic, ms. */
  now(): number;
  /** Resolves after `ms`, or earlier, without an error, when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** From 0 to below 1. */
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

/** What the promise gives, or 'late' once the time is over or the signal aborts: what it gives then is nobody's. */
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
  /** The longest first pause, ms; each further one is twice as long. */
  readonly minMs: number;
  /** The longest pause, ms. */
  readonly maxMs: number;
  readonly clock?: Clock;
}

/** The pauses between the attempts of one retried operation. */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #clock: Clock;
  #failures = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Call after a success: the next pause is a short one again. */
  reset(): void {
    this.#failures = 0;
  }

  /** Waits before the next attempt, between half and all of the current length; ends early when the signal aborts. */
  pause(signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(this.nextMs(), signal);
  }

  /** Counts a failure and returns the pause that it calls for, ms. */
  nextMs(): number {
    const { minMs, maxMs } = this.#options;
    const longestMs = Math.min(minMs * 2 ** Math.min(this.#failures++, 30), maxMs);
    return longestMs * (0.5 + this.#clock.random() / 2);
  }
}
