/** A look-up over whichever snapshot is in use: who holds it never has to know that the snapshot was replaced. */
import type { Lookup } from '../../shared/snapshot/lookup.ts';

export function liveLookup(current: () => Lookup): Lookup {
  return {
    keyOwner: (hash) => current().keyOwner(hash),
    anonymousTier: () => current().anonymousTier(),
    stack: (id) => current().stack(id),
    routes: (place, model) => current().routes(place, model),
    loadedLast: (place, model) => current().loadedLast(place, model),
    isPooled: (model) => current().isPooled(model),
    tierIncludes: (tier, model) => current().tierIncludes(tier, model),
    isCatalogued: (model) => current().isCatalogued(model),
    weight: (model) => current().weight(model),
    nextTier: (rank) => current().nextTier(rank),
    listing: (place) => current().listing(place),
    usageAdjustment: (organisation, period) => current().usageAdjustment(organisation, period),
    position: () => current().position(),
  };
}
