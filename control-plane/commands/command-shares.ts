/**
 * Everyone's share of the command writer of a replica, which writes together what waits at the same time: one command of a
 * person, any number of an operator's. Persons have a bounded part of its queue and of each minute, organisations one that
 * their members share; operators and the replica itself are served first and are bounded by nothing but their own queue.
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

  /** Counts a command of a person, whatever becomes of it. Throws CommandError TooManyRequests beyond their share of a minute. */
  countPerson(actor: Actor, { commandsPerPersonPerMinute: max }: Bounds): void {
    if (actor.person === undefined) return;
    this.#count(`person ${callerName(actor)}`, max, `${actor.person} may give ${max} commands a minute`);
  }

  /** Counts it for the organisation that it concerns. Call this once the person is known to be authorised. */
  countOrganisation(organisation: string, { commandsPerOrganisationPerMinute: max }: Bounds): void {
    const share = `the members of ${organisation} may give ${max} commands a minute`;
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

  /** Resolves with the function that ends the turn; call it once. Rejects with CommandError Busy. */
  turn(caller: QueueCaller): Promise<() => void> {
    return this.#queue.acquire(caller);
  }
}

export const theReplica: QueueCaller = { caller: 'the replica', isFirst: true };

/** `organisation`: which the command concerns, where a person gives it. */
export function commandCaller(actor: Actor, organisation: string | undefined): QueueCaller {
  if (actor.person === undefined) return { caller: actorName(actor), isFirst: true };
  return { caller: callerName(actor), organisation };
}

/**
 * Who begins or ends a session: with a part apart from that of commands, so that nobody's commands keep them from signing out.
 * The sessions of one person share it, and so do those of an organisation's links.
 */
export function sessionCaller({ person, operator, within }: Actor, id: string): QueueCaller {
  if (person === undefined) return { caller: actorName({ operator }), isFirst: true };
  return {
    caller: id,
    organisation: within === undefined ? `sessions of ${person}` : `sessions in ${within}`,
  };
}
