/**
 * Maps errors of a node that the request itself causes to refusals that are not retryable: what its model cannot do, by the
 * field's path, as if the dialect had not granted it; and 400 or 422. The engine's error text is not forwarded: a known
 * reason is mapped, an unknown one is left out.
 */
import type { Dialect } from '../../schemas/names.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Inability } from '../../shared/engines/dialect.ts';
import { inabilityOf, rejectionOf } from '../../shared/engines/node-answers.ts';
import type { AskedRequest } from '../shape/asked.ts';
import { notForThisModel, pathOfImage } from './node-body.ts';

type Path = readonly PropertyKey[];

/** `error`: of the node, as parsed. Undefined where it means something else. */
export function inabilityRefusal(asked: AskedRequest, dialect: Dialect, error: unknown): Refusal | undefined {
  const found = inabilityOf(dialect, error);
  return found && notForThisModel(pathOf(found, asked));
}

/** In the caller's own body. */
function pathOf(inability: Inability, asked: AskedRequest): Path {
  if (asked.kind === 'embeddings') return [inability === 'dimensions' ? 'dimensions' : 'input'];
  if (asked.kind === 'rerank') return ['documents'];
  const { hasSchema, paths = {} } = asked;
  switch (inability) {
    case 'images':
      return paths.images ?? (asked.workerText === undefined ? pathOfImage(asked.body) : ['messages']);
    case 'schema':
      return hasSchema ? (paths.response_format ?? ['response_format']) : ['tools'];
    case 'thinking':
      return paths.reasoning_effort ?? ['reasoning_effort'];
    case 'dimensions':
      return ['model'];
    default:
      return inability satisfies never;
  }
}

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
  return new Refusal('rejected', `This model does not accept this request${suffix}.`, { detail: reason });
}
