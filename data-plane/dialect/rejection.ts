/**
 * A node that answers 400 or 422 refuses the request, not the service: the same request would fail for ever, so it is
 * refused as one that cannot be carried. Of the engine's words only the reason is taken, where it is a known one.
 */
import { rejectionOf } from '../../shared/dialect/node-answers.ts';
import { Refusal } from '../request/refusal.ts';

export interface RejectedAttempt {
  /** For the log. */
  readonly reason: string;
  readonly status?: number;
  /** The node's error, as parsed. */
  readonly detail?: unknown;
}

/** undefined where the answer tells of the node: overload, a fault, a wrong address or credential. */
export function rejectionRefusal({ reason, status, detail }: RejectedAttempt): Refusal | undefined {
  const found = rejectionOf(status, detail);
  if (found === undefined) return undefined;
  const why = found.reason === undefined ? '' : `: ${found.reason}`;
  return new Refusal('UnsupportedShapeError', `This model does not accept this request${why}.`, { reason });
}
