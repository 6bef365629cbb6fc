/** Queue for questions to all gateways. Each person asks one at a time, because an overloaded gateway would seem silent. */
import { type Actor, callerName } from '../commands/authorise.ts';
import { CallerQueue } from '../state/caller-queue.ts';

const limits = {
  /** Maximum number of concurrent questions, which is half of what a gateway answers at once. */
  concurrencyMax: 2,
  /** Maximum number of questions that one person may have waiting. */
  waitersPerCallerMax: 16,
  what: 'questions to gateways',
};

export class GatewayTurns {
  readonly #persons = new CallerQueue(limits);
  readonly #operators = new CallerQueue(limits);
  #operatorCalls = 0;

  /** Runs `work` when its turn comes. Rejects with a `Busy` error, or with the signal's reason if the client disconnects. */
  run<Answer>(actor: Actor, client: AbortSignal, work: () => Promise<Answer>): Promise<Answer> {
    // Each operator call counts as a separate caller, because all operators share one name but are several people.
    return actor.person === undefined
      ? this.#operators.run(`operator ${this.#operatorCalls++}`, client, work)
      : this.#persons.run(callerName(actor), client, work);
  }
}
