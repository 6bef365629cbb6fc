/**
 * A queue for work of which little may run at a time: each caller runs one at a time, and callers alternate, so one
 * that asks often gets no more than others. A waiter waits for a bounded time, and a caller may fill only a part of the queue.
 * Where callers belong to organisations, these alternate too, and each has a part that its callers share.
 */

import { CommandError } from '../core/command-error.ts';
import { Tally } from './tally.ts';

const waitersMaxDefault = 128;
const waitMsDefault = 15_000;

export interface QueueLimits {
  /** Of different callers, and of those that are first. */
  readonly concurrencyMax: number;
  readonly waitersMax?: number;
  readonly waitersPerCallerMax: number;
  readonly waitersPerOrganisationMax?: number;
  readonly waitMs?: number;
  /** What is waited for, for messages. */
  readonly what: string;
}

export interface QueueCaller {
  readonly caller: string;
  readonly organisation?: string | undefined;
  /** Served before all others, any number of its work at a time, and waits in places of its own, `waitersMax` of them. */
  readonly isFirst?: boolean;
}

interface Waiter extends QueueCaller {
  /** The lowest number is next; of equal ones, who came first. */
  readonly turn: number;
  begin(): void;
}

export class CallerQueue {
  readonly #limits: QueueLimits;
  /** What runs, by its caller. */
  readonly #running = new Tally();
  /** In the order in which they came. Their callers are running already, or all of the concurrency is in use. */
  readonly #waiters = new Set<Waiter>();
  /** The turn of the waiter that began last. */
  #turn = 0;
  /** By caller and by organisation: the turn of its next waiter, where that is later than the present one. */
  readonly #nextTurns = new Map<string, number>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get #what(): string {
    return this.#limits.what;
  }

  /** Resolves with the function that releases the turn; call it once. Rejects with CommandError, or the reason of `signal`. */
  async acquire(who: string | QueueCaller, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const of = typeof who === 'string' ? { caller: who } : who;
    const { caller } = of;
    if (this.#mayRun(of)) this.#running.add(caller);
    else await this.#wait(of, signal);
    return () => {
      this.#running.add(caller, -1);
      this.#startNext();
    };
  }

  /** The turn ends with the work. Rejects as `acquire` does. */
  async run<Answer>(
    who: string | QueueCaller,
    signal: AbortSignal | undefined,
    work: () => Answer | Promise<Answer>,
  ): Promise<Answer> {
    const release = await this.acquire(who, signal);
    try {
      return await work();
    } finally {
      release();
    }
  }

  #mayRun({ caller, isFirst = false }: QueueCaller): boolean {
    return this.#running.total < this.#limits.concurrencyMax && (isFirst || this.#running.of(caller) === 0);
  }

  async #wait(who: QueueCaller, signal: AbortSignal | undefined): Promise<void> {
    this.#checkRoom(who);
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#waiters.delete(waiter);
        if (this.#waiters.size === 0) this.#nextTurns.clear();
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        settle();
      };
      const waiter: Waiter = { ...who, turn: this.#takeTurn(who), begin: () => end(resolve) };
      const onAbort = (): void => end(() => reject(signal?.reason));
      const isLate = (): void => end(() => reject(busy(`other ${this.#what} are in progress`)));
      const timer = setTimeout(isLate, this.#limits.waitMs ?? waitMsDefault);
      signal?.addEventListener('abort', onAbort);
      this.#waiters.add(waiter);
    });
  }

  #checkRoom({ caller, organisation, isFirst = false }: QueueCaller): void {
    const { waitersMax = waitersMaxDefault, waitersPerCallerMax } = this.#limits;
    const { waitersPerOrganisationMax = waitersMax } = this.#limits;
    const all = [...this.#waiters].filter((waiter) => (waiter.isFirst ?? false) === isFirst);
    const own = all.filter((waiter) => waiter.caller === caller);
    if (own.length >= (isFirst ? waitersMax : waitersPerCallerMax))
      throw busy(`too many ${this.#what} are waiting for this caller`);
    const ofIts =
      organisation === undefined ? [] : all.filter((waiter) => waiter.organisation === organisation);
    if (ofIts.length >= waitersPerOrganisationMax)
      throw busy(`too many ${this.#what} are waiting for this organisation`);
    if (!isFirst && all.length >= waitersMax) throw busy(`too many ${this.#what} are waiting`);
  }

  /** One after those of the same caller and of the same organisation, but not before the present one. */
  #takeTurn({ caller, organisation }: QueueCaller): number {
    const names = [
      `caller ${caller}`,
      ...(organisation === undefined ? [] : [`organisation ${organisation}`]),
    ];
    const turn = Math.max(this.#turn, ...names.map((name) => this.#nextTurns.get(name) ?? 0));
    for (const name of names) this.#nextTurns.set(name, turn + 1);
    return turn;
  }

  #startNext(): void {
    let next: Waiter | undefined;
    for (const waiter of this.#waiters)
      if (this.#mayRun(waiter) && (next === undefined || isBefore(waiter, next))) next = waiter;
    if (next === undefined) return;
    this.#running.add(next.caller);
    this.#turn = Math.max(this.#turn, next.turn);
    for (const [name, turn] of this.#nextTurns) if (turn <= this.#turn) this.#nextTurns.delete(name);
    next.begin();
  }
}

function isBefore(one: Waiter, other: Waiter): boolean {
  const [isFirst = false, isOtherFirst = false] = [one.isFirst, other.isFirst];
  return isFirst === isOtherFirst ? one.turn < other.turn : isFirst;
}

export function busy(message: string): CommandError {
  return new CommandError('Busy', message, { next: 'try again in a few seconds' });
}
