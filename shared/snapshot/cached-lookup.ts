/**
 * A look-up that remembers what the same requests ask again and again. Its answers change only with the position of the
 * snapshot, so all of them are dropped with each commit; each table is bounded, because callers choose keys and models.
 */
import { BoundedMap } from '../runtime/bounded-map.ts';
import type { KeyOwner, Lookup } from './lookup.ts';

export interface CachedLookup extends Lookup {
  /** The snapshot has moved: nothing that was remembered is valid. */
  drop(): void;
}

/** Answers of one query remembered at most; the next one empties its table. */
const answersMax = 10_000;

/** A null in a key cannot be part of a name. */
const join = (first: string, second: string): string => `${first}\0${second}`;

const answersOf = <Value>(): BoundedMap<string, Value> => new BoundedMap(answersMax, 'all');

export function cachedLookup(lookup: Lookup): CachedLookup {
  const owners = answersOf<KeyOwner>();
  const stacks = answersOf<ReturnType<Lookup['stack']> | null>();
  const routes = answersOf<ReturnType<Lookup['routes']>>();
  const pooled = answersOf<boolean>();
  const included = answersOf<boolean>();
  const catalogued = answersOf<boolean>();
  const weights = answersOf<number>();
  const affinities = answersOf<boolean>();
  const adjustments = answersOf<number>();
  const all = [owners, stacks, routes, pooled, included, catalogued, weights, affinities, adjustments];
  return {
    ...lookup,
    keyOwner: (hash) => {
      const key = hash.toString('latin1');
      const known = owners.get(key);
      if (known !== undefined) return known;
      // An unknown key is not remembered, so that guesses displace nothing.
      const owner = lookup.keyOwner(hash);
      return owner && owners.keep(key, owner);
    },
    stack: (id) => {
      const known = stacks.get(id);
      return (known === undefined ? stacks.keep(id, lookup.stack(id) ?? null) : known) ?? undefined;
    },
    routes: (place, model) => {
      const key = join(place, model);
      return routes.get(key) ?? routes.keep(key, lookup.routes(place, model));
    },
    isPooled: (model) => pooled.get(model) ?? pooled.keep(model, lookup.isPooled(model)),
    tierIncludes: (tier, model) => {
      const key = join(tier, model);
      return included.get(key) ?? included.keep(key, lookup.tierIncludes(tier, model));
    },
    isCatalogued: (model) => catalogued.get(model) ?? catalogued.keep(model, lookup.isCatalogued(model)),
    weight: (model) => weights.get(model) ?? weights.keep(model, lookup.weight(model)),
    hasAffinity: (model) => affinities.get(model) ?? affinities.keep(model, lookup.hasAffinity(model)),
    usageAdjustment: (organisation, period) => {
      const key = join(organisation, period);
      return adjustments.get(key) ?? adjustments.keep(key, lookup.usageAdjustment(organisation, period));
    },
    drop: () => {
      for (const answers of all) answers.clear();
    },
  };
}
