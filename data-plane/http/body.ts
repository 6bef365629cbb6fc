/** Reads a request's body whole, and refuses it in the words of a gateway. */
import { Refusal } from '../../shared/decision/refusal.ts';
import type { SharedBudget } from '../../shared/runtime/byte-budget.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { memoryRefusal } from '../surfaces/common/memory-refusal.ts';
import { type Body, type BodyFault, type BodyPace, type BodySource, readFrom } from './incoming-body.ts';

interface BodyOptions {
  readonly pace?: BodyPace | undefined;
  readonly bytesMax: number;
  readonly turnMsMax?: number | undefined;
}

/**
 * Throws PayloadTooLargeError, or InferenceUnavailableError where memory for bodies has run out, the body's turn did not come in
 * time, or it comes too slowly, or ClientGone.
 */
export function readBody(
  source: BodySource,
  memory: SharedBudget,
  { pace, bytesMax, turnMsMax = waits.bodyTurn.ms }: BodyOptions,
): Promise<Body> {
  const refusal = (fault: BodyFault): Refusal => bodyRefusal(fault, bytesMax);
  return readFrom(source, { memory, share: memory, turnMsMax, bytesMax, pace, refusal });
}

function bodyRefusal(fault: BodyFault, bytesMax: number): Refusal {
  if (fault === 'large')
    return new Refusal('large body', `The request body is larger than ${bytesMax} bytes.`);
  if (fault !== 'slow') return memoryRefusal(fault, 'body');
  const message = 'The request body came slower than 8 KiB a second, so it was not waited for. Try again.';
  return new Refusal('slow body', message);
}
