/** Refusals that are sent if there is too little memory to hold the body of a request or response. */
import { Refusal } from '../../../shared/decision/refusal.ts';
import type { MemoryShortage } from '../../../shared/runtime/byte-budget.ts';
import { NodeFailure } from './node-failure.ts';

const messages: Readonly<Record<MemoryShortage, string>> = {
  memory: 'The service holds too many request and answer bodies. Try again in a moment.',
  share:
    'The bodies of your organisation’s requests take all the memory that one organisation may use. Try again once one of these requests has finished.',
};

/** Builds the refusal. `what` is the kind of body for which there was too little memory: a request's or a response's. */
export function memoryRefusal(shortage: MemoryShortage, what: 'body' | 'answer'): Refusal {
  return new Refusal(
    shortage === 'memory' ? `${what} budget` : `${what} budget of the organisation`,
    messages[shortage],
  );
}

/** Thrown if a stream needs more memory than is available, which is not the node's fault. */
export class UnheldAnswer extends NodeFailure {
  /** Refusal to send to the client if the response to the client has not begun. */
  readonly refusal: Refusal;

  constructor(shortage: MemoryShortage) {
    const refusal = memoryRefusal(shortage, 'answer');
    super('unheld', refusal.reason);
    this.refusal = refusal;
  }
}
