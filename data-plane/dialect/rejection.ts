/**
 * Maps 400 and 422 of a node to a refusal of the request. Such a request fails on every retry, so the client gets an error
 * that is not retryable. The engine's error text is not forwarded: a known reason is mapped, an unknown one is left out.
 */

import { Refusal } from '../../shared/decision/refusal.ts';
import { rejectionOf } from '../../shared/engines/node-answers.ts';

export interface RejectedAttempt {
  /** For the log. */
  readonly reason: string;
  readonly status?: number;
  /** The parsed error body of the node. */
  readonly detail?: unknown;
}

/** Undefined where the error is about the node: overload, a fault, a wrong address or credential. */
export function rejectionRefusal({ reason, status, detail }: RejectedAttempt): Refusal | undefined {
  const rejection = rejectionOf(status, detail);
  if (rejection === undefined) return undefined;
  const suffix = rejection.reason === undefined ? '' : `: ${rejection.reason}`;
  return new Refusal('UnsupportedShapeError', `This model does not accept this request${suffix}.`, {
    reason,
  });
}
