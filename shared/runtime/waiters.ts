/** Lets readers wait for a change. A reader misses none if it notes `changes`, reads, and then waits for a higher number. */
export class Waiters {
  readonly #waiting = new Set<() => void>();
  #changes = 0;

  /** Number of changes reported so far. */
  get changes(): number {
    return this.#changes;
  }
  get size(): number {
    return this.#waiting.size;
  }

  /** Resolves once there have been more than `seen` changes, or when `signal` aborts. */
  changedSince(seen: number, signal?: AbortSignal): Promise<void> {
    return this.#changes === seen ? this.next(undefined, signal) : Promise.resolve();
  }

  /** Resolves at the next change, after `timeoutMs` if given, or when `signal` aborts. */
  next(timeoutMs: number | undefined, signal?: AbortSignal): Promise<void> {
    // Check the signal first, because a signal that has already aborted does not call new listeners.
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = timeoutMs === undefined ? undefined : setTimeout(done, Math.max(timeoutMs, 0));
      this.#waiting.add(done);
      signal?.addEventListener('abort', done);
    });
  }

  /** Reports a change. Readers resume in the order in which they began to wait. */
  wake(): void {
    this.#changes++;
    for (const done of [...this.#waiting]) done();
  }
}
