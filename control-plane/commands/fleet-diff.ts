/**
 * Compares a fleet document with the state. Resources that the document does not declare are removed only by pruning. The
 * document never contains keys: a key stays unless its organisation is removed. The result depends only on state, document
 * and time.
 */

import type { Tier } from '../../schemas/admin/admin.ts';
import type { EventData } from '../../schemas/events/events.ts';
import type { Fleet, FleetNode, FleetOrganisation, FleetStack } from '../../schemas/events/fleet.ts';
import type { Place } from '../../schemas/names.ts';
import { anonymousTierName } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findNode, findPool, findStack } from '../state/capacity.ts';
import { findAnonymous, findBoundsSet, findModel, listTiers } from '../state/catalog.ts';
import { findMember, findOrganisation } from '../state/tenants.ts';
import { FleetPlan } from './fleet-plan.ts';
import { pruneFleet } from './fleet-prune.ts';
import { checkReferences } from './fleet-references.ts';
import { formatDay } from './organisations.ts';
import { selection, visitorLimits } from './tiers.ts';

export interface FleetOptions {
  readonly prune?: boolean | undefined;
  /** Wall clock in ms since 1970. New resources get it as their time of creation. */
  readonly nowMs: number;
}

/** Plans how to make the state match the document. Throws an `InvalidCommand` or `Conflict` error if it cannot. */
export function* diffFleet(db: Database, fleet: Fleet, options: FleetOptions): Generator<void, FleetPlan> {
  checkReferences(db, fleet, options.prune ?? false);
  const plan = new FleetPlan();
  planModels(db, fleet, plan, options.nowMs);
  planTiers(db, fleet, plan, options.prune ?? false);
  planAnonymous(db, fleet, plan);
  planBounds(db, fleet, plan);
  for (const organisation of fleet.organisations ?? []) {
    planOrganisation(db, organisation, plan, options.nowMs);
    yield;
  }
  planPool(db, fleet, plan);
  yield;
  if (options.prune) pruneFleet(db, fleet, plan);
  return plan;
}

function planModels(db: Database, fleet: Fleet, plan: FleetPlan, nowMs: number): void {
  for (const { id, family, weight, affinity, added } of fleet.models ?? []) {
    const before = findModel(db, id);
    const after = {
      id,
      family,
      weight: weight ?? before?.weight ?? 1,
      affinity: affinity ?? before?.affinity ?? 'prefix',
      added: new Date(added ?? before?.added ?? nowMs).toISOString(),
    };
    plan.put('model', id, before, after, { type: 'model.set', data: after });
  }
}

function planTiers(db: Database, fleet: Fleet, plan: FleetPlan, prune: boolean): void {
  const present = listTiers(db);
  const listed = (fleet.tiers ?? []).map(({ id }) => id);
  const ranks = rankTiers(prune ? present.filter(({ id }) => listed.includes(id)) : present, listed);
  for (const tier of fleet.tiers ?? []) {
    const after = { ...tier, rank: ranks.get(tier.id) ?? 0, models: selection(tier.models) };
    const before = present.find(({ id }) => id === tier.id);
    plan.put('tier', tier.id, before, after, { type: 'tier.set', data: after });
  }
  for (const before of present) {
    if (listed.includes(before.id)) continue;
    // The document does not list this tier, but a listed tier may have taken its rank, so this tier may need a new one.
    const models = selection(before.models);
    const after = { ...before, models, rank: ranks.get(before.id) ?? before.rank };
    plan.put('tier', before.id, before, after, { type: 'tier.set', data: after });
  }
}

function planAnonymous(db: Database, { anonymous }: Fleet, plan: FleetPlan): void {
  if (!anonymous) return;
  const after = visitorLimits(anonymous);
  plan.put('anonymous', anonymousTierName, findAnonymous(db), after, { type: 'anonymous.set', data: after });
}

function planBounds(db: Database, { bounds }: Fleet, plan: FleetPlan): void {
  if (!bounds) return;
  plan.put('bounds', 'fleet', findBoundsSet(db), bounds, { type: 'bounds.set', data: bounds });
}

function planPool(db: Database, { pool }: Fleet, plan: FleetPlan): void {
  const installed = findPool(db).models;
  for (const model of pool?.models ?? []) {
    const before = installed.includes(model) ? {} : undefined;
    plan.put('install', `pool/${model}`, before, {}, { type: 'pool.model_installed', data: { model } });
  }
  planNodes(db, pool?.nodes, { kind: 'pool' }, plan);
}

function planOrganisation(db: Database, wanted: FleetOrganisation, plan: FleetPlan, nowMs: number): void {
  const { id, name } = wanted;
  const found = findOrganisation(db, id);
  const before = found && { id, name: found.name, tier: found.tier, anchor: found.anchor };
  const tier = wanted.tier === undefined ? (before?.tier ?? null) : wanted.tier;
  const after = { id, name, tier, anchor: wanted.anchor ?? before?.anchor ?? formatDay(nowMs) };
  plan.put('organisation', id, before, after, { type: 'organisation.set', data: after });
  for (const { person, role } of wanted.members ?? []) {
    const data = { organisation: id, person, role };
    const member = findMember(db, id, person);
    plan.put('member', `${id}/${person}`, member, data, { type: 'member.set', data });
  }
  planNodes(db, wanted.nodes, { kind: 'organisation', id }, plan);
  for (const stack of wanted.stacks ?? []) planStack(db, id, stack, plan);
}

function planStack(db: Database, organisation: string, wanted: FleetStack, plan: FleetPlan): void {
  const { id } = wanted;
  const found = findStack(db, id);
  if (found && found.organisation !== organisation)
    throw new CommandError('Conflict', `the stack ${id} belongs to ${found.organisation}`, {
      next: `a stack cannot change its organisation: remove it first, or choose another id for ${organisation}`,
    });
  const surface = wanted.surface ?? found?.surface ?? 'openai';
  plan.put(
    'stack',
    id,
    found && { surface: found.surface },
    { surface },
    found
      ? { type: 'stack.surface_set', data: { id, surface } }
      : { type: 'stack.created', data: { id, organisation, surface } },
  );
  for (const model of wanted.models ?? []) {
    const before = found?.models.includes(model) ? {} : undefined;
    const data = { stack: id, model };
    plan.put('install', `${id}/${model}`, before, {}, { type: 'stack.model_installed', data });
  }
  planNodes(db, wanted.nodes, { kind: 'stack', id }, plan);
}

function planNodes(
  db: Database,
  wanted: readonly FleetNode[] | undefined,
  place: Place,
  plan: FleetPlan,
): void {
  for (const node of wanted ?? []) {
    const after = { ...node, place, agent: node.agent ?? false };
    plan.put('node', node.id, registration(db, node.id), after, { type: 'node.registered', data: after });
  }
}

/** Returns the node as it was registered, without its health. */
function registration(db: Database, id: string): EventData<'node.registered'> | undefined {
  const node = findNode(db, id);
  if (!node) return undefined;
  const { place, url, dialect, credential, models, agent } = node;
  return { id, place, url, dialect, credential, models, agent };
}

const rankMax = 1000;

/**
 * Assigns strictly rising ranks to listed and existing tiers. A document lists the lowest tier first. Ranks that fit this
 * order are kept. A tier that the document does not list stays directly above the same tier as before.
 */
export function rankTiers(present: readonly Tier[], listed: readonly string[]): Map<string, number> {
  const order = merged(
    present.map(({ id }) => id),
    listed,
  );
  const before = new Map(present.map(({ id, rank }) => [id, rank]));
  const ranks = new Map<string, number>();
  let last = -1;
  for (const id of order) {
    last = Math.max(before.get(id) ?? 0, last + 1);
    ranks.set(id, last);
  }
  return last <= rankMax ? ranks : new Map(order.map((id, index) => [id, index]));
}

function merged(present: readonly string[], listed: readonly string[]): string[] {
  const order = [...listed];
  for (const [index, id] of present.entries()) {
    if (order.includes(id)) continue;
    const below = present[index - 1];
    order.splice(below === undefined ? 0 : order.indexOf(below) + 1, 0, id);
  }
  return order;
}
