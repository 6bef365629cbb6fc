/**
 * Tails that wait for a change. A waiter is registered in the same turn in which its reader saw nothing new, so no wake-up
 * falls between the two; each waits for one change at most and leaves nothing behind on its signal.
 */
export class Waiters {
  readonly #waiting = new Set<() => void>();

  get size(): number {
    return this.#waiting.size;
  }

  /** Resolves at the next `wake`, or when `signal` aborts. */
  next(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      this.#waiting.add(done);
      signal?.addEventListener('abort', done);
    });
  }

  /** Ends all waits of this moment, in the order in which they began. */
  wake(): void {
    for (const done of [...this.#waiting]) done();
  }
}
