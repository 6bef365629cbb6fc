/**
 * The model listing. On the shared host: the models of the pool, and nothing of any organisation. On a stack host: exactly
 * what that stack can answer, so nothing to an organisation without a plan; a foreign stack gets the same answer as a missing
 * one. One model is answered as a request for it would be.
 * One document that the clients of both families read, with identifier, family and the time added (Model listing entry).
 * The order is the newest first, then by id, so that two answers compare equal. `owned_by` repeats the family, and never
 * names an organisation.
 */

import { type OperationKind, operations } from '../../schemas/api/operations.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { Lookup, ServedModel } from '../snapshot/lookup.ts';
import { type Caller, planOf } from './authenticate.ts';
import { dedicatedOnly, type Target, targetNotServing, unavailable, withoutPlan } from './route.ts';

export type ListingOperation =
  | { readonly kind: 'models' }
  | { readonly kind: 'model'; readonly model: string };

export function isListing(operation: { readonly kind: OperationKind }): operation is ListingOperation {
  return operations[operation.kind].countsAs === 'listing';
}

/** Where the models of the host are served, and whether its surface has an operation that reranks. */
interface ListedPlace {
  readonly place: PlaceKey;
  readonly reranks: boolean;
}

function placeOf(lookup: Lookup, target: Target, caller: Caller): ListedPlace {
  if (target.kind === 'shared') return { place: 'pool', reranks: true };
  const stack = lookup.stack(target.stack);
  if (!stack || caller.kind !== 'key' || stack.organisation !== caller.owner.organisation)
    throw targetNotServing('foreign or missing stack');
  return {
    place: `stack:${target.stack}`,
    reranks: stack.surface === operations.rerank.surface,
  };
}

/** The models of the place that are asked for text or embeddings: all but those that rerank and do nothing else. */
export function textModels(lookup: Lookup, place: PlaceKey): readonly ServedModel[] {
  return lookup.listing(place).filter(({ id }) => lookup.routes(place, id).some(({ reranks }) => !reranks));
}

/** The answer's body. Throws TargetNotServingError or, for a model that is not there, the refusal of its host. */
export function listModels(
  lookup: Lookup,
  target: Target,
  caller: Caller,
  operation: ListingOperation,
): string {
  // As for a request, the plan comes before the stack, so own, foreign and missing stacks have one answer.
  if (operation.kind === 'model' && !isEntitled(caller)) throw withoutPlan('not listed without a plan');
  const { place, reranks } = placeOf(lookup, target, caller);
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

/** Is a request of the caller not refused for want of a plan? Who needs no key has the plan of nobody. */
function isEntitled(caller: Caller): boolean {
  return caller.kind !== 'key' || planOf(caller.owner) !== null;
}

export interface ListedModel {
  readonly id: string;
  readonly family: string;
  /** RFC 3339. */
  readonly added: string;
}

/** The document of one model. */
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

/** The document of a list; complete, so `has_more` is always false. */
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
