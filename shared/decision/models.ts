/**
 * The model listing. On the shared host: what is loaded on shared compute at this moment, and nothing of any
 * organisation. On a stack host: exactly what that stack can answer; a foreign stack is not told from a missing one.
 */
import type { PlaceKey } from '../../schemas/names.ts';
import type { Lookup } from '../snapshot/lookup.ts';
import type { Caller } from './authenticate.ts';
import type { Target } from './host.ts';
import { modelEntry, modelListing } from './model-listing.ts';
import type { ListingOperation } from './operation.ts';
import { dedicatedOnly, targetNotServing } from './route.ts';

function placeOf(lookup: Lookup, target: Target, caller: Caller): PlaceKey {
  if (target.kind === 'shared') return 'pool';
  const stack = lookup.stack(target.stack);
  if (!stack || caller.kind !== 'key' || stack.organisation !== caller.owner.organisation)
    throw targetNotServing('foreign or missing stack');
  return `stack:${target.stack}`;
}

/** The answer's body. Throws TargetNotServingError or, for a model that is not there, what its host says of it. */
export function listModels(
  lookup: Lookup,
  target: Target,
  caller: Caller,
  operation: ListingOperation,
): string {
  const entries = lookup.listing(placeOf(lookup, target, caller)).map(({ id, family, addedMs }) => ({
    id,
    family,
    added: new Date(addedMs).toISOString(),
  }));
  if (operation.kind === 'models') return JSON.stringify(modelListing(entries));
  const entry = entries.find(({ id }) => id === operation.model);
  if (entry) return JSON.stringify(modelEntry(entry));
  throw target.kind === 'shared' ? dedicatedOnly({ reason: 'not listed' }) : targetNotServing('not listed');
}
