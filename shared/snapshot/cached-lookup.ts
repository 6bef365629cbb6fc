/**
 * A look-up that remembers what the same requests ask again and again. What a commit touches is forgotten row by row, so that a
 * node that flaps does not make every other request ask again; each table is bounded, because callers choose keys and models.
 */
import { BoundedMap } from '../runtime/bounded-map.ts';
import type { KeyOwner, Lookup } from './lookup.ts';
import type { RowOf, TableName, TableRow } from './tables.ts';

export interface CachedLookup extends Lookup {
  /** A row is written or removed: no answer that was made of it is valid. Takes effect before the next question. */
  forget(table: TableName, before: TableRow | undefined, after: TableRow | undefined): void;
}

/** Answers of one query remembered at most; the next one empties its table. */
const answersMax = 10_000;

/** A null in a key cannot be part of a name. */
const join = (first: string, second: string): string => `${first}\0${second}`;

const latin1 = (hash: Buffer): string => hash.toString('latin1');

const answersOf = <Value>(): BoundedMap<string, Value> => new BoundedMap(answersMax, 'all');

function remembered() {
  return {
    owners: answersOf<KeyOwner>(),
    stacks: answersOf<ReturnType<Lookup['stack']> | null>(),
    routes: answersOf<ReturnType<Lookup['routes']>>(),
    pooled: answersOf<boolean>(),
    included: answersOf<boolean>(),
    catalogued: answersOf<boolean>(),
    weights: answersOf<number>(),
    affinities: answersOf<boolean>(),
    adjustments: answersOf<number>(),
  };
}

type Remembered = ReturnType<typeof remembered>;

function forgetAll(answers: Remembered): void {
  for (const known of Object.values(answers)) known.clear();
}

/** What is forgotten with a row of each table; null where no answer is made of one. */
const forgetters: {
  readonly [Name in TableName]: ((answers: Remembered, row: RowOf<Name>) => void) | null;
} = {
  // Of all keys: to look for those of one tier or organisation would cost a commit of many rows as often.
  tier: ({ owners }) => owners.clear(),
  // A row may be of all models.
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
  // Another view of all definitions, or other rows in it.
  change: forgetAll,
  overlay: forgetAll,
  closed_change: null,
  routes: ({ routes }, { place, model }) => void routes.delete(join(place, model)),
};

export function cachedLookup(lookup: Lookup): CachedLookup {
  const answers = remembered();
  const { owners, stacks, routes, pooled, included, catalogued, weights, affinities, adjustments } = answers;
  return {
    ...lookup,
    keyOwner: (hash) => {
      const key = latin1(hash);
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
    forget: (table, before, after) => {
      const forgetRow = forgetters[table] as ((answers: Remembered, row: TableRow) => void) | null;
      if (forgetRow === null) return;
      if (before !== undefined) forgetRow(answers, before);
      if (after !== undefined) forgetRow(answers, after);
    },
  };
}
