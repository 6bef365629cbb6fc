/**
 * Shares a replica's command writer fairly among callers. Each person may use only part of the queue and may send a limited
 * number of commands per minute. The members of an organisation together have a second limit. Commands are written in groups,
 * and a group contains one command per person. Operators and the replica itself go first, and only the length of their queue
 * limits them.
 */
import type { Bounds } from '../../schemas/shapes.ts';
import { CommandError } from '../core/command-error.ts';
import { MinuteLimit } from '../core/minute-limit.ts';
import { CallerQueue, type QueueCaller } from '../state/caller-queue.ts';
import { type Actor, actorName, callerName } from './authorise.ts';
import { groupMax } from './command-group.ts';

const waitersMax = 1000;
const waitersPerCallerMax = 8;
const waitersPerOrganisationMax = 32;
const waitMs = 30_000;

export class CommandShares {
  readonly #queue = new CallerQueue({
    ...{ concurrencyMax: groupMax, waitersMax, waitersPerCallerMax, waitersPerOrganisationMax, waitMs },
    what: 'commands',
  });
  readonly #minute: MinuteLimit;

  constructor(now?: () => number) {
    this.#minute = new MinuteLimit(now);
  }

  /** Counts a person's command, whatever its outcome. Throws a `TooManyRequests` error above the limit per minute. */
  countPerson(actor: Actor, { commandsPerPersonPerMinute: max }: Bounds): void {
    if (actor.person === undefined) return;
    this.#count(`person ${callerName(actor)}`, max, `${actor.person} may run ${max} commands a minute`);
  }

  /** Counts a command for its organisation. The caller must already have checked that the person is authorised there. */
  countOrganisation(organisation: string, { commandsPerOrganisationPerMinute: max }: Bounds): void {
    const share = `the members of ${organisation} may run ${max} commands a minute`;
    this.#count(`organisation ${organisation}`, max, share);
  }

  #count(name: string, max: number, share: string): void {
    const retryAfterSeconds = this.#minute.tryAcquire({ [name]: max });
    if (retryAfterSeconds === undefined) return;
    throw new CommandError('TooManyRequests', `${share} on this replica`, {
      next: `try again in ${retryAfterSeconds} s, or ask an operator to raise the bounds of the fleet`,
      retryAfterSeconds,
    });
  }

  /**
   * Waits for the caller's turn. Resolves with a function that ends the turn and must be called once. Rejects with `Busy`.
   */
  turn(caller: QueueCaller): Promise<() => void> {
    return this.#queue.acquire(caller);
  }
}

export const theReplica: QueueCaller = { caller: 'the replica', isFirst: true };

/** Identifies a command's caller for the queue. `organisation` is the organisation that a person's command concerns. */
export function commandCaller(actor: Actor, organisation: string | undefined): QueueCaller {
  if (actor.person === undefined) return { caller: actorName(actor), isFirst: true };
  return { caller: callerName(actor), organisation };
}

/** Identifies a caller who begins or ends a session. Such calls have their own share, so commands never block a sign-out. */
export function sessionCaller({ person, operator, within }: Actor, id: string): QueueCaller {
  if (person === undefined) return { caller: actorName({ operator }), isFirst: true };
  return {
    caller: id,
    organisation: within === undefined ? `sessions of ${person}` : `sessions in ${within}`,
  };
}
