/** Caches the results of a look-up, within bounds. A commit removes only results that depend on the rows that it changes. */
import { BoundedMap } from '../runtime/bounded-map.ts';
import type { KeyOwner, Lookup } from './lookup.ts';
import type { RowOf, TableName, TableRow } from './tables.ts';

export interface CachedLookup extends Lookup {
  /** Removes every result that depends on this row. Call it for each row written or removed, before the next query. */
  forget(table: TableName, before: TableRow | undefined, after: TableRow | undefined): void;
}

/** Maximum number of results cached for each kind of query. One result more empties the cache of that kind. */
const answersMax = 10_000;

/** Joins key parts with a NUL character, which names cannot contain. */
const join = (first: string, second: string): string => `${first}\0${second}`;

const latin1 = (hash: Buffer): string => hash.toString('latin1');

const createAnswers = <Value>(): BoundedMap<string, Value> => new BoundedMap(answersMax, 'all');

function createCaches() {
  return {
    owners: createAnswers<KeyOwner>(),
    stacks: createAnswers<ReturnType<Lookup['stack']> | null>(),
    routes: createAnswers<ReturnType<Lookup['routes']>>(),
    pooled: createAnswers<boolean>(),
    included: createAnswers<boolean>(),
    catalogued: createAnswers<boolean>(),
    weights: createAnswers<number>(),
    affinities: createAnswers<boolean>(),
    adjustments: createAnswers<number>(),
  };
}

type Caches = ReturnType<typeof createCaches>;

function forgetAll(answers: Caches): void {
  for (const known of Object.values(answers)) known.clear();
}

/** For each table, a function that removes the results depending on one of its rows, or null if no results do. */
const forgetters: {
  readonly [Name in TableName]: ((answers: Caches, row: RowOf<Name>) => void) | null;
} = {
  // Clear the owners of all keys, because finding the keys of one tier or organisation would be costly in large commits.
  tier: ({ owners }) => owners.clear(),
  // Clear the results for all models, because a row with the model `*` means that its tier includes every model.
  tier_model: ({ included }) => included.clear(),
  model: ({ catalogued, weights, affinities }, { id }) => {
    for (const answers of [catalogued, weights, affinities]) answers.delete(id);
  },
  organisation: ({ owners }) => owners.clear(),
  member: null,
  api_key: ({ owners }, { hash }) => {
    if (hash !== null) owners.delete(latin1(hash));
  },
  stack: ({ stacks }, { id }) => void stacks.delete(id),
  stack_model: ({ routes }, { stack, model }) => void routes.delete(join(`stack:${stack}`, model)),
  pool_model: ({ routes, pooled }, { model }) => {
    routes.delete(join('pool', model));
    pooled.delete(model);
  },
  node: null,
  node_token: null,
  usage_adjustment: ({ adjustments }, { organisation, period }) =>
    void adjustments.delete(join(organisation, period)),
  bounds: null,
  // Clear everything, because an open change can replace rows of many tables.
  change: forgetAll,
  overlay: forgetAll,
  closed_change: null,
  routes: ({ routes }, { place, model }) => void routes.delete(join(place, model)),
};

export function cachedLookup(lookup: Lookup): CachedLookup {
  const answers = createCaches();
  const { owners, stacks, routes, pooled, included, catalogued, weights, affinities, adjustments } = answers;
  return {
    ...lookup,
    keyOwner: (hash) => {
      const key = latin1(hash);
      const known = owners.get(key);
      if (known !== undefined) return known;
      // Do not cache unknown keys, so that someone guessing keys cannot evict the results for real keys.
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
    forget: (table, before, after) => {
      const forgetRow = forgetters[table] as ((answers: Caches, row: TableRow) => void) | null;
      if (forgetRow === null) return;
      if (before !== undefined) forgetRow(answers, before);
      if (after !== undefined) forgetRow(answers, after);
    },
  };
}
