/**
 * Turns of questions that every gateway has to answer from its records. A person asks one at a time. Persons and operators each have
 * few turns at once, so that no gateway is asked more than it answers at a time and appears silent.
 */
import { type Actor, callerName } from '../commands/authorise.ts';
import { CallerQueue } from '../state/caller-queue.ts';

const limits = {
  /** Half of the questions that a gateway answers at once. */
  concurrencyMax: 2,
  /** As many as a person may have open. */
  waitersPerCallerMax: 16,
  what: 'questions to gateways',
};

export class GatewayTurns {
  readonly #persons = new CallerQueue(limits);
  readonly #operators = new CallerQueue(limits);
  #operatorCalls = 0;

  /** Rejects with CommandError Busy, or with the reason of the signal, which ends a wait. The turn ends with the work. */
  run<Answer>(actor: Actor, client: AbortSignal, work: () => Promise<Answer>): Promise<Answer> {
    // All operators have one name in the log, but they are several people.
    return actor.person === undefined
      ? this.#operators.run(`operator ${this.#operatorCalls++}`, client, work)
      : this.#persons.run(callerName(actor), client, work);
  }
}
