/** Decides commands on the catalog's models. A forced removal also removes the model from everything that names it. */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { overweightWarnings } from '../../schemas/events/overweight.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findAnonymous, findModel, listOverweight, type ModelUses, usesOfModel } from '../state/catalog.ts';
import { defineCommands } from './definition.ts';
import { needModel, needTier, needUnused, sameData } from './preconditions.ts';

function listUses({ pool, stacks, tiers, anonymous }: ModelUses): string[] {
  return [
    ...(pool ? ['the pool'] : []),
    ...stacks.map((stack) => `stack ${stack}`),
    ...tiers.map((tier) => `tier ${tier}`),
    ...(anonymous ? ['anonymous visitors'] : []),
  ];
}

function clearUses(db: Database, model: string, uses: ModelUses): KnownEvent[] {
  const events: KnownEvent[] = [];
  if (uses.pool) events.push({ type: 'pool.model_uninstalled', data: { model } });
  for (const stack of uses.stacks) events.push({ type: 'stack.model_uninstalled', data: { stack, model } });
  for (const id of uses.tiers) {
    const tier = needTier(db, id);
    events.push({ type: 'tier.set', data: { ...tier, models: without(tier.models, model) } });
  }
  const visitors = findAnonymous(db);
  if (uses.anonymous && visitors)
    events.push({ type: 'anonymous.set', data: { ...visitors, models: without(visitors.models, model) } });
  return events;
}

function without(models: '*' | readonly string[], model: string): '*' | string[] {
  return models === '*' ? '*' : models.filter((each) => each !== model);
}

export const modelCommands = defineCommands({
  'model.set': {
    decide: (db, { params: { id }, body: { family, weight, affinity, added } }, { nowMs }) => {
      const before = findModel(db, id);
      const after = {
        id,
        family,
        weight: weight ?? before?.weight ?? 1,
        affinity: affinity ?? before?.affinity ?? 'prefix',
        added: new Date(added ?? before?.added ?? nowMs).toISOString(),
      };
      if (before && sameData(before, after)) return { events: [] };
      return { events: [{ type: 'model.set', data: after }] };
    },
    warnings: (db, { params: { id } }) =>
      overweightWarnings(listOverweight(db).filter(({ model }) => model === id)),
    show: (db, { params: { id } }) => findModel(db, id) ?? { id },
  },
  'model.delete': {
    decide: (db, { params: { id } }, { force }) => {
      needModel(db, id);
      const uses = usesOfModel(db, id);
      needUnused(`the model ${id}`, listUses(uses), force, 'uninstall it there first');
      return { events: [...clearUses(db, id, uses), { type: 'model.removed', data: { id } }] };
    },
    show: (_db, { params: { id } }) => ({ id }),
  },
});
