/**
 * Decides whether an error from a node was caused by the request, and converts it to a refusal that must not be retried. Such
 * errors say that the prompt is too long or that the model lacks a capability, or have status 400 or 422. The node's error
 * text is never passed on.
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
  readonly reason: string;
  readonly status?: number;
  readonly detail?: unknown;
}

/** Refusal for the client, or undefined if the request did not cause the node's error. */
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

/** Refusal for the client if the node's error says that the model lacks a capability, or undefined otherwise. */
export function inabilityRefusal(asked: AskedRequest, dialect: Dialect, error: unknown): Refusal | undefined {
  const found = findInability(dialect, error);
  return found && notForThisModel(fieldPath(found, asked));
}

/** Path in the caller's body of the field that needs the missing capability. */
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

/** Refusal of a request that the node rejected. Undefined if the node is at fault, for example because it is overloaded. */
function rejectionRefusal({ reason, status, detail }: FailedAttempt): Refusal | undefined {
  const rejection = findRejection(status, detail);
  if (rejection === undefined) return undefined;
  const suffix = rejection.reason === undefined ? '' : `: ${rejection.reason}`;
  return new Refusal('rejected', `This model does not accept this request${suffix}.`, { detail: reason });
}
