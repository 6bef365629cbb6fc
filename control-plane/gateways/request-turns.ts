/**
 * Turns of questions about requests, which every gateway reads for: few are asked at a time, of persons and of operators apart, so
 * that no gateway is asked more than it answers at once and none is called silent for that.
 */
import { type Actor, callerName } from '../commands/authorise.ts';
import { CallerQueue } from '../state/caller-queue.ts';

const what = 'questions about requests';
/** Of either; a gateway sums up four times at once. */
const concurrencyMax = 2;

export class RequestTurns {
  readonly #persons = new CallerQueue({ concurrencyMax, waitersPerCallerMax: 8, what });
  readonly #operators = new CallerQueue({ concurrencyMax, waitersPerCallerMax: 128, what });
  #operatorCalls = 0;

  /** Rejects with CommandError Busy, or the reason of the signal, which ends a wait. The turn ends with the work. */
  run<Answer>(actor: Actor, client: AbortSignal, work: () => Promise<Answer>): Promise<Answer> {
    // Operators are one caller to the log, and several people.
    return actor.person === undefined
      ? this.#operators.run(`operator ${this.#operatorCalls++}`, client, work)
      : this.#persons.run(callerName(actor), client, work);
  }
}
