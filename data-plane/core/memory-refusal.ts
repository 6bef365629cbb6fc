/** The answer of a gateway where memory for bodies is exhausted. */
import { Refusal } from '../../shared/decision/refusal.ts';
import type { MemoryShortage } from '../../shared/runtime/byte-budget.ts';

const refusals: Readonly<Record<MemoryShortage, readonly [message: string, reason: string]>> = {
  memory: ['The service holds too many bodies of requests and answers now. Try again.', 'body budget'],
  share: [
    'The bodies of your organisation’s requests take all the memory that one organisation may have at a time. Try again once one of them is done.',
    'body budget of the organisation',
  ],
};

export function memoryRefusal(shortage: MemoryShortage): Refusal {
  const [message, reason] = refusals[shortage];
  return new Refusal('InferenceUnavailableError', message, { reason });
}
