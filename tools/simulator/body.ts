/**
 * Reads the body of a request, bounded.
 */
import type { IncomingMessage } from 'node:http';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { type BodyFault, ClientGone, discardRest, readWhole } from '../../shared/runtime/request-body.ts';

const memory = new BodyBudget();

/** Calls back with the whole body, or undefined when it is larger than `bytesMax` or comes too slowly. Never calls back for a client that left. */
export function readBody(
  request: IncomingMessage,
  bytesMax: number,
  done: (body: Buffer | undefined) => void,
): void {
  const refusal = (fault: BodyFault): Error => new Error(fault);
  readWhole(request, { bytesMax, memory, refusal }).then(
    ({ bytes, release }) => {
      const whole = bytes.whole();
      release();
      done(whole);
    },
    (error: unknown) => {
      if (error instanceof ClientGone) return;
      done(undefined);
      discardRest(request);
    },
  );
}

/** The JSON value of a body, or undefined where it is none. */
export function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
