/**
 * Maps a node's errors that the request caused to refusals that are not retryable: a prompt that is too long, a missing
 * capability of the model (refused by the field's path), and status 400 or 422. The error text is never forwarded.
 */
import type { Dialect } from '../../../schemas/names.ts';
import { Refusal } from '../../../shared/decision/refusal.ts';
import type { Inability } from '../../../shared/engines/dialect.ts';
import { findContextError, findInability, findRejection } from '../../../shared/engines/node-answers.ts';
import type { Route } from '../../../shared/snapshot/lookup.ts';
import type { AskedRequest } from './asked.ts';
import { notForThisModel, pathOfImage } from './node-body.ts';

type Path = readonly PropertyKey[];

export interface FailedAttempt {
  /** Reason for the log. */
  readonly reason: string;
  readonly status?: number;
  /** Parsed error body of the node. */
  readonly detail?: unknown;
}

/** Returns undefined if the request did not cause the error. */
export function refusalOfError(
  failed: FailedAttempt,
  asked: AskedRequest,
  route: Pick<Route, 'dialect' | 'windowTokens'>,
  tier: string,
): Refusal | undefined {
  return (
    contextRefusal(failed, route, tier) ??
    inabilityRefusal(asked, route.dialect, failed.detail) ??
    rejectionRefusal(failed)
  );
}

function contextRefusal(
  { detail, reason }: FailedAttempt,
  route: Pick<Route, 'dialect' | 'windowTokens'>,
  tier: string,
): Refusal | undefined {
  const found = findContextError(route.dialect, detail);
  if (found === undefined) return undefined;
  const windowTokens = found.windowTokens ?? route.windowTokens;
  const window = windowTokens === null ? '' : `, which is ${windowTokens} tokens`;
  return new Refusal(
    'window',
    `On the ${tier} tier, this request needs more context than the window of this model${window}.`,
    { detail: reason },
  );
}

/** Returns the refusal if the parsed error of the node means that a capability is missing, otherwise undefined. */
export function inabilityRefusal(asked: AskedRequest, dialect: Dialect, error: unknown): Refusal | undefined {
  const found = findInability(dialect, error);
  return found && notForThisModel(fieldPath(found, asked));
}

/** Path of the field in the caller's own body. */
function fieldPath(inability: Inability, asked: AskedRequest): Path {
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

/** Returns undefined if the error is the node's: overload, a fault, a wrong address or credential. */
function rejectionRefusal({ reason, status, detail }: FailedAttempt): Refusal | undefined {
  const rejection = findRejection(status, detail);
  if (rejection === undefined) return undefined;
  const suffix = rejection.reason === undefined ? '' : `: ${rejection.reason}`;
  return new Refusal('rejected', `This model does not accept this request${suffix}.`, { detail: reason });
}
