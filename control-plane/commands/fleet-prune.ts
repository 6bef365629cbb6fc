/** Removes resources that are not in the fleet document, each by its own event, so that the list of changes is complete. */
import type { Fleet } from '../../schemas/events/fleet.ts';
import { anonymousTierName } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findPool, listNodes, listStacks } from '../state/capacity.ts';
import { findAnonymous, listModels, listTiers } from '../state/catalog.ts';
import { listMembers, listOrganisations } from '../state/tenants.ts';
import type { FleetPlan } from './fleet-plan.ts';

/** Collects the ids of all resources that the document declares. */
function declared(fleet: Fleet) {
  const organisations = fleet.organisations ?? [];
  const stacks = organisations.flatMap((organisation) => organisation.stacks ?? []);
  const nodes = [fleet.pool, ...organisations, ...stacks].flatMap((place) => place?.nodes ?? []);
  return {
    models: new Set(fleet.models?.map(({ id }) => id)),
    tiers: new Set(fleet.tiers?.map(({ id }) => id)),
    organisations: new Map(organisations.map((organisation) => [organisation.id, organisation])),
    members: new Set(
      organisations.flatMap(({ id, members }) => members?.map(({ person }) => `${id}/${person}`) ?? []),
    ),
    stacks: new Set(stacks.map(({ id }) => id)),
    installs: new Set([
      ...(fleet.pool?.models ?? []).map((model) => `pool/${model}`),
      ...stacks.flatMap(({ id, models }) => models?.map((model) => `${id}/${model}`) ?? []),
    ]),
    nodes: new Set(nodes.map(({ id }) => id)),
  };
}
type DeclaredIds = ReturnType<typeof declared>;

export function pruneFleet(db: Database, fleet: Fleet, plan: FleetPlan): void {
  const kept = declared(fleet);
  for (const { id } of listNodes(db)) {
    if (!kept.nodes.has(id)) plan.remove('node', id, { type: 'node.removed', data: { id } });
  }
  pruneInstalls(db, kept, plan);
  pruneTenants(db, kept, plan);
  for (const { id } of listTiers(db)) {
    if (!kept.tiers.has(id)) plan.remove('tier', id, { type: 'tier.removed', data: { id } });
  }
  for (const { id } of listModels(db)) {
    if (!kept.models.has(id)) plan.remove('model', id, { type: 'model.removed', data: { id } });
  }
  if (!fleet.anonymous && findAnonymous(db))
    plan.remove('anonymous', anonymousTierName, { type: 'anonymous.removed', data: {} });
}

function pruneInstalls(db: Database, kept: DeclaredIds, plan: FleetPlan): void {
  for (const model of findPool(db).models) {
    if (kept.installs.has(`pool/${model}`)) continue;
    plan.remove('install', `pool/${model}`, { type: 'pool.model_uninstalled', data: { model } });
  }
  for (const { id: stack, models } of listStacks(db)) {
    for (const model of models) {
      if (kept.installs.has(`${stack}/${model}`)) continue;
      const data = { stack, model };
      plan.remove('install', `${stack}/${model}`, { type: 'stack.model_uninstalled', data });
    }
  }
}

function pruneTenants(db: Database, kept: DeclaredIds, plan: FleetPlan): void {
  for (const { id } of listStacks(db)) {
    if (!kept.stacks.has(id)) plan.remove('stack', id, { type: 'stack.removed', data: { id } });
  }
  for (const { organisation, person } of listMembers(db)) {
    if (kept.members.has(`${organisation}/${person}`)) continue;
    const data = { organisation, person };
    plan.remove('member', `${organisation}/${person}`, { type: 'member.removed', data });
  }
  for (const { id } of listOrganisations(db)) {
    if (!kept.organisations.has(id))
      plan.remove('organisation', id, { type: 'organisation.removed', data: { id } });
  }
}
