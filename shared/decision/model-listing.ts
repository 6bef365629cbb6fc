/**
 * Builds model listings (specification, Model listing entry). The shared host lists the pool's models, and a stack's host
 * exactly what the stack can serve. Another organisation's stack gets the same response as a missing one. A request for a
 * single model gets the same refusal as an inference request would. Clients of both API families read the same document.
 * Models are sorted newest first, then by id, so that equal listings have equal bytes. `owned_by` never names an
 * organisation.
 */

import { type OperationKind, operations } from '../../schemas/api/operations.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { Lookup, ServedModel } from '../snapshot/lookup.ts';
import { type Caller, organisationPlan } from './authenticate.ts';
import { dedicatedOnly, type Target, targetNotServing, unavailable, withoutPlan } from './route.ts';

export type ListingOperation =
  | { readonly kind: 'models' }
  | { readonly kind: 'model'; readonly model: string };

export function isListing(operation: { readonly kind: OperationKind }): operation is ListingOperation {
  return operations[operation.kind].countsAs === 'listing';
}

/** Place whose models are listed, and whether the host's API surface includes reranking. */
interface ListedPlace {
  readonly place: PlaceKey;
  readonly reranks: boolean;
}

function resolveListedPlace(lookup: Lookup, target: Target, caller: Caller): ListedPlace {
  if (target.kind === 'shared') return { place: 'pool', reranks: true };
  const stack = lookup.stack(target.stack);
  if (!stack || caller.kind !== 'key' || stack.organisation !== caller.owner.organisation)
    throw targetNotServing('foreign or missing stack');
  return {
    place: `stack:${target.stack}`,
    reranks: stack.surface === operations.rerank.surface,
  };
}

/** Models of the place that serve text or embeddings requests. Models that only rerank are excluded. */
export function textModels(lookup: Lookup, place: PlaceKey): readonly ServedModel[] {
  return lookup.listing(place).filter(({ id }) => lookup.routes(place, id).some(({ reranks }) => !reranks));
}

/** Returns the JSON listing. If the stack or the requested model is missing, throws the refusal that fits the host. */
export function listModels(
  lookup: Lookup,
  target: Target,
  caller: Caller,
  operation: ListingOperation,
): string {
  // Like inference requests, check the plan before the stack, so that callers without a plan cannot tell which stacks exist.
  if (operation.kind === 'model' && !isEntitled(caller)) throw withoutPlan('not listed without a plan');
  const { place, reranks } = resolveListedPlace(lookup, target, caller);
  const listed = reranks ? lookup.listing(place) : textModels(lookup, place);
  const served = isEntitled(caller) ? listed : [];
  const entries = served.map(({ id, family, addedMs }) => ({
    id,
    family,
    added: new Date(addedMs).toISOString(),
  }));
  if (operation.kind === 'models') return JSON.stringify(modelListing(entries));
  const entry = entries.find(({ id }) => id === operation.model);
  if (entry) return JSON.stringify(modelEntry(entry));
  if (target.kind === 'stack') throw targetNotServing('not listed by the stack');
  throw lookup.isPooled(operation.model)
    ? unavailable('not listed now')
    : dedicatedOnly('not listed by the pool');
}

/** Whether the caller has a plan. A caller without a key does not need one. */
function isEntitled(caller: Caller): boolean {
  return caller.kind !== 'key' || organisationPlan(caller.owner) !== null;
}

export interface ListedModel {
  readonly id: string;
  readonly family: string;
  /** Time when the model was added, in RFC 3339 format. */
  readonly added: string;
}

export function modelEntry({ id, family, added }: ListedModel) {
  const addedMs = Date.parse(added);
  return {
    id,
    object: 'model',
    type: 'model',
    family,
    created: Math.floor(addedMs / 1000),
    created_at: new Date(addedMs).toISOString().replace('.000Z', 'Z'),
    display_name: id,
    owned_by: family,
  };
}

/** Returns the listing's document. It always contains all models, so `has_more` is always false. */
export function modelListing(models: readonly ListedModel[]) {
  const data = models.map(modelEntry).sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));
  return {
    object: 'list',
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data[data.length - 1]?.id ?? null,
  };
}
