/**
 * Builds a fleet file of many organisations, each with an owner. Half of them have a stack with a model, and a fifth of those
 * a node.
 */
import type { Fleet, FleetOrganisation } from '../../schemas/events/fleet.ts';

const models = Array.from({ length: 50 }, (_, n) => `model-${n}`);
const tiers = ['Starter', 'Team', 'Business', 'Platinum'] as const;

function organisationAt(n: number): FleetOrganisation {
  const stack = {
    id: `stk-large-fleet-${n}`,
    surface: 'openai' as const,
    models: [models[n % models.length] ?? ''],
    nodes:
      n % 10 === 0
        ? [{ id: `node-${n}`, url: `http://127.0.0.1:${10_000 + n}`, dialect: 'vllm' as const }]
        : [],
  };
  return {
    ...{ id: `org-${n}`, name: `Organisation ${n}`, tier: tiers[n % tiers.length] ?? null },
    anchor: '2026-01-01',
    members: [{ person: `person-${n}`, role: 'owner' }],
    nodes: [],
    stacks: n % 2 === 0 ? [stack] : [],
  };
}

export function largeFleet(organisations: number): Fleet {
  return {
    version: 1,
    models: models.map((id) => ({
      ...{ id, family: 'echo', weight: 1, affinity: 'prefix' as const, added: '2026-01-01T00:00:00.000Z' },
    })),
    tiers: tiers.map((id, n) => ({ id, requestsPerMinute: 60 * (n + 1), models: '*' as const })),
    pool: { models: models.slice(0, 10), nodes: [] },
    organisations: Array.from({ length: organisations }, (_, n) => organisationAt(n)),
  };
}
