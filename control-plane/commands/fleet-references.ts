/** Checks that all resources a fleet document refers to are declared or stay in the state. Reports all faults at once. */
import { type Fleet, pathText } from '../../schemas/events/fleet.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError, type CommandErrorDetail } from '../core/command-error.ts';
import { findModel, findTier } from '../state/catalog.ts';
import { findOrganisation } from '../state/tenants.ts';

type Path = readonly (string | number)[];
type Selection = '*' | readonly string[] | undefined;

function modelSelections(fleet: Fleet): { readonly path: Path; readonly models: Selection }[] {
  return [
    ...(fleet.tiers ?? []).map(({ models }, index) => ({ path: ['tiers', index, 'models'], models })),
    { path: ['anonymous', 'models'], models: fleet.anonymous?.models },
    { path: ['pool', 'models'], models: fleet.pool?.models },
    ...(fleet.organisations ?? []).flatMap(({ stacks }, index) =>
      (stacks ?? []).map(({ models }, at) => ({
        path: ['organisations', index, 'stacks', at, 'models'],
        models,
      })),
    ),
  ];
}

function unknownModels(db: Database, fleet: Fleet, prune: boolean): CommandErrorDetail[] {
  const catalog = new Set(fleet.models?.map(({ id }) => id));
  const isKnown = (id: string) => catalog.has(id) || (!prune && findModel(db, id) !== undefined);
  return modelSelections(fleet).flatMap(({ path, models }) =>
    models === undefined || models === '*'
      ? []
      : models.flatMap((model, index) =>
          isKnown(model) ? [] : [{ path: pathText([...path, index]), message: `there is no model ${model}` }],
        ),
  );
}

function unknownTiers(db: Database, fleet: Fleet, prune: boolean): CommandErrorDetail[] {
  const tiers = new Set(fleet.tiers?.map(({ id }) => id));
  const isKnown = (id: string) => tiers.has(id) || (!prune && findTier(db, id) !== undefined);
  return (fleet.organisations ?? []).flatMap(({ id, tier: wanted }, index) => {
    const tier = wanted === undefined ? (findOrganisation(db, id)?.tier ?? null) : wanted;
    if (tier === null || isKnown(tier)) return [];
    return [{ path: `organisations[${index}].tier`, message: `there is no tier ${tier}` }];
  });
}

/** Throws an `InvalidCommand` error with every missing model and tier. */
export function checkReferences(db: Database, fleet: Fleet, prune: boolean): void {
  const details = [...unknownModels(db, fleet, prune), ...unknownTiers(db, fleet, prune)];
  const [first] = details;
  if (first)
    throw new CommandError('InvalidCommand', `${first.path}: ${first.message}`, {
      next: 'declare each of them in the file',
      details: details.slice(0, 200),
    });
}
