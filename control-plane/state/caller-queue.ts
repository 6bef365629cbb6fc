/**
 * A queue for work of which little may run at a time: each caller runs one at a time, and callers alternate, so one
 * that asks often gets no more than others. A waiter waits for a bounded time, and a caller may fill only a part of the queue.
 */
import { CommandError } from '../core/command-error.ts';

export interface QueueLimits {
  /** Of different callers. */
  readonly concurrencyMax: number;
  readonly waitersMax: number;
  readonly waitersPerCallerMax: number;
  readonly waitMs: number;
  /** What is waited for, for messages. */
  readonly what?: string;
}

interface Waiter {
  begin(): void;
}

export class CallerQueue {
  readonly #limits: QueueLimits;
  readonly #running = new Set<string>();
  /** In the order in which callers are served. Each of them is running already, or all of the concurrency is in use. */
  readonly #waiters = new Map<string, Set<Waiter>>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get #what(): string {
    return this.#limits.what ?? 'downloads of the snapshot';
  }

  /** Resolves with the function that releases the turn; call it once. Rejects with CommandError, or the reason of `signal`. */
  async acquire(caller: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#mayRun(caller)) this.#running.add(caller);
    else await this.#wait(caller, signal);
    return () => {
      this.#running.delete(caller);
      this.#startNext();
    };
  }

  #mayRun(caller: string): boolean {
    return this.#running.size < this.#limits.concurrencyMax && !this.#running.has(caller);
  }

  async #wait(caller: string, signal: AbortSignal): Promise<void> {
    const { waitersMax, waitersPerCallerMax, waitMs } = this.#limits;
    const own = this.#waiters.get(caller) ?? new Set();
    if (own.size >= waitersPerCallerMax) throw busy(`too many ${this.#what} are waiting for this caller`);
    let all = 0;
    for (const { size } of this.#waiters.values()) all += size;
    if (all >= waitersMax) throw busy(`too many ${this.#what} are waiting`);
    this.#waiters.set(caller, own);
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        own.delete(waiter);
        if (own.size === 0) this.#waiters.delete(caller);
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        settle();
      };
      const waiter: Waiter = { begin: () => end(resolve) };
      const onAbort = (): void => end(() => reject(signal.reason));
      const timer = setTimeout(() => end(() => reject(busy(`other ${this.#what} are in progress`))), waitMs);
      signal.addEventListener('abort', onAbort);
      own.add(waiter);
    });
  }

  #startNext(): void {
    for (const [caller, waiters] of this.#waiters) {
      if (!this.#mayRun(caller)) continue;
      const [waiter] = waiters;
      this.#running.add(caller);
      waiter?.begin();
      // A caller that was served moves to the end, if it has more waiters.
      if (this.#waiters.delete(caller)) this.#waiters.set(caller, waiters);
      return;
    }
  }
}

function busy(message: string): CommandError {
  return new CommandError('Busy', message, { next: 'try again in a few seconds' });
}
