/** Decides commands on tiers and on visitors' limits. No two tiers have the same rank, so "the next tier" is unambiguous. */
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { overweightWarnings } from '../../schemas/events/overweight.ts';
import { anonymousTierName } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import {
  findAnonymous,
  findBounds,
  findBoundsSet,
  findTier,
  listOverweight,
  listTiers,
} from '../state/catalog.ts';
import { organisationsOnTier } from '../state/tenants.ts';
import { defineCommands } from './definition.ts';
import { needModels, needTier, needUnused, sameData } from './preconditions.ts';

type Selection = '*' | readonly string[];

/** Returns a selection of models as the state stores it: sorted and without duplicates. */
export function selection(models: Selection): '*' | string[] {
  return models === '*' ? '*' : [...new Set(models)].sort();
}

/** Returns visitors' limits as the state stores them. */
export function visitorLimits({ total, ...limits }: NonNullable<Fleet['anonymous']>) {
  const hasTotal = total !== undefined && Object.values(total).some((limit) => limit !== undefined);
  return { ...limits, models: selection(limits.models), ...(hasTotal && { total }) };
}

function closeToVisitors(db: Database): KnownEvent[] {
  if (!findAnonymous(db)) throw new CommandError('NotFound', 'visitors are not served');
  return [{ type: 'anonymous.removed', data: {} }];
}

export const tierCommands = defineCommands({
  'tier.set': {
    decide: (db, { params: { id }, body }) => {
      const tiers = listTiers(db);
      const before = tiers.find((tier) => tier.id === id);
      const rank = body.rank ?? before?.rank ?? (tiers.at(-1)?.rank ?? -1) + 1;
      const holder = tiers.find((tier) => tier.rank === rank && tier.id !== id);
      if (holder)
        throw new CommandError('Conflict', `the tier ${holder.id} has rank ${rank}`, {
          next: 'choose another rank, or apply a fleet file, which orders all tiers at once',
        });
      if (rank > 1000) throw new CommandError('InvalidCommand', 'a rank must be at most 1000');
      needModels(db, body.models);
      const after = { ...body, id, rank, models: selection(body.models) };
      if (before && sameData(before, after)) return { events: [] };
      return { events: [{ type: 'tier.set', data: after }] };
    },
    warnings: (db, { params: { id } }) =>
      overweightWarnings(listOverweight(db).filter(({ tier }) => tier === id)),
    show: (db, { params: { id } }) => findTier(db, id) ?? { id },
  },
  'tier.delete': {
    decide: (db, { params: { id } }, { force }) => {
      if (id === anonymousTierName) return { events: closeToVisitors(db) };
      needTier(db, id);
      const users = organisationsOnTier(db, id);
      needUnused(
        `the tier ${id}`,
        users.map((organisation) => organisation.id),
        force,
        'put these organisations on another tier first',
      );
      const clear = users.map(
        ({ id: organisation, name, anchor }): KnownEvent => ({
          type: 'organisation.set',
          data: { id: organisation, name, tier: null, anchor },
        }),
      );
      return { events: [...clear, { type: 'tier.removed', data: { id } }] };
    },
    show: (_db, { params: { id } }) => ({ id }),
  },
  'anonymous.set': {
    decide: (db, { body }) => {
      needModels(db, body.models);
      const after = visitorLimits(body);
      if (sameData(findAnonymous(db), after)) return { events: [] };
      return { events: [{ type: 'anonymous.set', data: after }] };
    },
    warnings: (db) => overweightWarnings(listOverweight(db).filter(({ tier }) => tier === anonymousTierName)),
    show: (db) => findAnonymous(db) ?? {},
  },
  'bounds.set': {
    decide: (db, { body }) => {
      if (sameData(findBoundsSet(db), body)) return { events: [] };
      return { events: [{ type: 'bounds.set', data: body }] };
    },
    show: findBounds,
  },
});
