/**
 * Turns of persons whose work falls on gateways: one at a time each, and few together, so that operators and other persons
 * are answered whatever one of them asks. Operators have no turns.
 */
import { type Actor, callerName } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { CallerQueue } from '../state/caller-queue.ts';

/** Of different persons; less than the questions that a gateway takes at a time. */
const concurrencyMax = 2;

export class PersonTurns {
  readonly #asking = new Set<string>();
  readonly #queue = new CallerQueue({
    ...{ concurrencyMax, waitersPerCallerMax: 1, what: 'questions about recorded decisions' },
  });

  /**
   * Rejects with CommandError: TooManyRequests while the person has a turn, Busy where others have theirs for too long; and with
   * the reason of the signal, which ends a wait for the turn. The turn ends with the work.
   */
  async run<Answer>(actor: Actor, client: AbortSignal, work: () => Promise<Answer>): Promise<Answer> {
    if (actor.person === undefined) return work();
    const caller = callerName(actor);
    if (this.#asking.has(caller))
      throw new CommandError('TooManyRequests', 'a question of yours is being answered', {
        next: 'ask for one request at a time',
      });
    this.#asking.add(caller);
    try {
      return await this.#queue.run(caller, client, work);
    } finally {
      this.#asking.delete(caller);
    }
  }
}
