/** Turns of questions to all gateways. A person asks one at a time, so that no gateway is overloaded and seems silent. */
import { type Actor, callerName } from '../commands/authorise.ts';
import { CallerQueue } from '../state/caller-queue.ts';

const limits = {
  /** Half of the questions that a gateway answers at once. */
  concurrencyMax: 2,
  /** Number of questions that one person may have open. */
  waitersPerCallerMax: 16,
  what: 'questions to gateways',
};

export class GatewayTurns {
  readonly #persons = new CallerQueue(limits);
  readonly #operators = new CallerQueue(limits);
  #operatorCalls = 0;

  /** Rejects with CommandError Busy, or with the signal's reason if it ends the wait. The turn ends with the work. */
  run<Answer>(actor: Actor, client: AbortSignal, work: () => Promise<Answer>): Promise<Answer> {
    // All operators have one name in the log, but they are several people.
    return actor.person === undefined
      ? this.#operators.run(`operator ${this.#operatorCalls++}`, client, work)
      : this.#persons.run(callerName(actor), client, work);
  }
}
