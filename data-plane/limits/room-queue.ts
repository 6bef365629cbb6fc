/** Queue of requests that wait, in order of arrival, until the log may have granted them room in a limit. */
import type { OwnLimit } from './own-limit.ts';

/** Maximum number of requests waiting for one limit. */
const waitersMax = 5000;

export interface Waiter {
  readonly own: OwnLimit;
  readonly weight: number;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly done: (again: boolean) => void;
}

export class RoomQueue {
  /** Whether anything has changed since the last `settle`, so that a waiting request may fit now. */
  mayFit = false;
  readonly #waiters = new Set<Waiter>();
  readonly #counts = new Map<OwnLimit, number>();

  get size(): number {
    return this.#waiters.size;
  }

  /** Adds a request. Returns undefined if too many requests are already waiting for its limit. */
  add(waiter: Waiter): Waiter | undefined {
    const { own, weight } = waiter;
    const count = this.#counts.get(own) ?? 0;
    if (count >= waitersMax) return undefined;
    this.#waiters.add(waiter);
    this.#counts.set(own, count + 1);
    own.waiting += weight;
    return waiter;
  }

  remove(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    const { own, weight } = waiter;
    own.waiting -= weight;
    const count = (this.#counts.get(own) ?? 1) - 1;
    if (count > 0) this.#counts.set(own, count);
    else this.#counts.delete(own);
  }

  /** Releases requests that now fit or never can. `ahead` is the weight that this call has released for the same limit. */
  settle(verdict: (own: OwnLimit, ahead: number, weight: number) => 'fits' | 'waits' | 'never'): void {
    this.mayFit = false;
    const ahead = new Map<OwnLimit, number>();
    /** Smallest weight that still has to wait, by limit. Heavier requests are skipped, because thousands may be waiting. */
    const blocked = new Map<OwnLimit, number>();
    for (const waiter of [...this.#waiters]) {
      const { own, weight } = waiter;
      if (weight >= (blocked.get(own) ?? Number.POSITIVE_INFINITY)) continue;
      const before = ahead.get(own) ?? 0;
      const result = verdict(own, before, weight);
      if (result === 'waits') {
        blocked.set(own, weight);
        continue;
      }
      if (result === 'fits') ahead.set(own, before + weight);
      this.#end(waiter, result === 'fits');
    }
  }

  /** Releases every waiter that `isOver` selects. The callers then decide those requests once more. */
  expire(isOver: (waiter: Waiter) => boolean): void {
    for (const waiter of [...this.#waiters]) if (isOver(waiter)) this.#end(waiter, true);
  }

  #end(waiter: Waiter, again: boolean): void {
    this.remove(waiter);
    waiter.done(again);
  }
}
