/** Applies and exports the fleet as one document. It does not contain keys, tokens, health, suspension or draining. */

import type { NodeResource } from '../../schemas/admin/admin.ts';
import type { Fleet, FleetNode, FleetOrganisation, FleetStack } from '../../schemas/events/fleet.ts';
import { overweightWarnings } from '../../schemas/events/overweight.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findPool, listNodes, listStacks } from '../state/capacity.ts';
import { findAnonymous, findBoundsSet, listModels, listOverweight, listTiers } from '../state/catalog.ts';
import { listMembers, listOrganisations } from '../state/tenants.ts';
import { defineCommands } from './definition.ts';
import { diffFleet } from './fleet-diff.ts';
import { selection } from './tiers.ts';

export const fleetCommands = defineCommands({
  'fleet.apply': {
    plansAhead: true,
    *decide(db, { body: { fleet, prune } }, { nowMs }) {
      const { steps, changes } = yield* diffFleet(db, fleet, { prune, nowMs });
      return {
        events: steps.map(({ event }) => event),
        extra: { changes },
        divisible: {
          // Never divide an organisation's members between two commits, because it would lack an owner after the first one.
          mayBegin: (at) => steps[at]?.event.type !== 'member.set',
          extra: (end) => ({ changes: steps.slice(0, end).map(({ change }) => change) }),
        },
      };
    },
    warnings: (db) => overweightWarnings(listOverweight(db)),
    show: () => ({ changes: [] }),
  },
});

export function exportFleet(db: Database): Fleet {
  const nodes = grouped(listNodes(db), formatPlace);
  const anonymous = findAnonymous(db);
  const bounds = findBoundsSet(db);
  return {
    version: 1,
    models: listModels(db),
    tiers: listTiers(db).map(({ rank: _order, models, ...tier }) => ({ ...tier, models: selection(models) })),
    ...(anonymous && { anonymous: { ...anonymous, models: selection(anonymous.models) } }),
    ...(bounds && { bounds }),
    pool: { models: [...findPool(db).models], nodes: exportNodes(nodes.get('pool')) },
    organisations: exportOrganisations(db, nodes),
  };
}

function exportOrganisations(db: Database, nodes: Map<string, NodeResource[]>): FleetOrganisation[] {
  const members = grouped(listMembers(db), ({ organisation }) => organisation);
  const stacks = grouped(listStacks(db), ({ organisation }) => organisation);
  return listOrganisations(db).map(({ id, name, tier, anchor }) => ({
    id,
    name,
    tier,
    anchor,
    members: (members.get(id) ?? []).map(({ person, role }) => ({ person, role })),
    nodes: exportNodes(nodes.get(`organisation:${id}`)),
    stacks: (stacks.get(id) ?? []).map(
      (stack): FleetStack => ({
        id: stack.id,
        surface: stack.surface,
        models: [...stack.models],
        nodes: exportNodes(nodes.get(`stack:${stack.id}`)),
      }),
    ),
  }));
}

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

function formatPlace({ place }: NodeResource): string {
  return place.kind === 'pool' ? 'pool' : `${place.kind}:${place.id}`;
}

function exportNodes(nodes: readonly NodeResource[] = []): FleetNode[] {
  return nodes.map(({ id, url, dialect, credential, models, agent }) => ({
    id,
    url,
    dialect,
    ...(credential !== undefined && { credential }),
    ...(models && { models: { ...models } }),
    ...(agent && { agent }),
  }));
}
