/**
 * Fair queue for work that needs low concurrency. Each caller runs one task at a time, and callers alternate, as do
 * organisations. Waiting times are limited, and each caller and organisation may occupy only part of the queue.
 */

import { CommandError } from '../core/command-error.ts';
import { Tally } from './tally.ts';

const waitersMaxDefault = 128;
const waitMsDefault = 15_000;

export interface QueueLimits {
  /** Maximum number of running tasks, counted separately for regular callers and for callers with priority. */
  readonly concurrencyMax: number;
  readonly waitersMax?: number;
  readonly waitersPerCallerMax: number;
  readonly waitersPerOrganisationMax?: number;
  readonly waitMs?: number;
  /** Name of what callers wait for, used in messages. */
  readonly what: string;
}

export interface QueueCaller {
  readonly caller: string;
  readonly organisation?: string | undefined;
  /** Whether the caller goes before all others, may run any number of tasks, and has a separate limit of `waitersMax`. */
  readonly isFirst?: boolean;
}

interface Waiter extends QueueCaller {
  /** Sort key of waiters. The lowest turn is next, and equal turns are served in order of arrival. */
  readonly turn: number;
  begin(): void;
}

export class CallerQueue {
  readonly #limits: QueueLimits;
  /** Number of running tasks by caller. */
  readonly #running = new Tally();
  /** Waiters in order of arrival. Each waits because its caller already runs a task or because all concurrency is in use. */
  readonly #waiters = new Set<Waiter>();
  /** Turn number of the waiter that started last. */
  #turn = 0;
  /** Turn number of the next waiter of a caller or organisation, if it is higher than the current number. */
  readonly #nextTurns = new Map<string, number>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get #what(): string {
    return this.#limits.what;
  }

  /** Waits for a turn. Resolves with a function to call once to release it. Rejects with `CommandError` or if aborted. */
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

  /** Runs the work and then releases the turn. Rejects with the same errors as `acquire`. */
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

  /** Assigns a turn number above the earlier ones of this caller and organisation, and not below the current number. */
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
