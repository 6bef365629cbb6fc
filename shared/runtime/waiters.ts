/**
 * Readers that wait for a change. A reader takes the value of `changes` before it reads, and waits for a change since then,
 * so none is missed in between. No listener is left on a reader's signal.
 */
export class Waiters {
  readonly #waiting = new Set<() => void>();
  #changes = 0;

  /** How many changes there were. */
  get changes(): number {
    return this.#changes;
  }
  /** How many readers wait now. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Resolves once there were more than `seen` changes, or when `signal` aborts. */
  changedSince(seen: number, signal?: AbortSignal): Promise<void> {
    return this.#changes === seen ? this.next(undefined, signal) : Promise.resolve();
  }

  /** Resolves at the next change, after `timeoutMs` where it is given, or when `signal` aborts. */
  next(timeoutMs: number | undefined, signal?: AbortSignal): Promise<void> {
    // A signal that has already aborted calls no listener.
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

  /** Reports a change; the readers resume in the order in which they began to wait. */
  wake(): void {
    this.#changes++;
    for (const done of [...this.#waiting]) done();
  }
}
