/** Demo fleet with three organisations, three tiers, a pool, two stacks, and a node that belongs to one organisation. */
import type { Fleet, FleetNode } from '../../schemas/events/fleet.ts';
import type { DetectedEngine } from '../../shared/engines/detect.ts';

export const demoNodes = [
  { id: 'pool-1', models: ['echo-small', 'echo-large', 'echo-embed'] },
  { id: 'acme-1', models: ['echo-private', 'echo-small'] },
  { id: 'acme-s1', models: ['echo-large', 'echo-embed'] },
  { id: 'birch-s1', models: ['echo-small'] },
] as const;

export type DemoNodeId = (typeof demoNodes)[number]['id'];

const tierLimits = {
  Starter: { requestsPerMinute: 60, concurrency: 4, contextTokens: 8192, monthlyTokens: 1_000_000 },
  Pro: { requestsPerMinute: 600, concurrency: 40, contextTokens: 32_768, monthlyTokens: 50_000_000 },
  Platinum: {
    requestsPerMinute: 60_000,
    concurrency: 4000,
    contextTokens: 131_072,
    monthlyTokens: 10_000_000_000,
  },
};
const visitors = {
  ...{ freeTurns: 10, requestsPerMinute: 10, concurrency: 1, contextTokens: 4096 },
  total: { requestsPerMinute: 120, concurrency: 8, tokensPerDay: 1_000_000 },
};

/** Builds the demo fleet over simulated nodes at `urls`. If `agent` is false, nodes have no agents and are probed instead. */
export function demoFleet(urls: Readonly<Record<DemoNodeId, string>>, agent = false): Fleet {
  const node = (id: DemoNodeId): FleetNode => ({
    id,
    url: urls[id],
    dialect: 'vllm',
    ...(agent && { agent }),
  });
  return {
    version: 1,
    models: [
      { id: 'echo-small', family: 'echo', weight: 1 },
      { id: 'echo-large', family: 'echo', weight: 4 },
      { id: 'echo-embed', family: 'echo', weight: 1 },
      { id: 'echo-private', family: 'echo', weight: 1 },
    ],
    tiers: [
      { id: 'Starter', ...tierLimits.Starter, models: ['echo-small'] },
      { id: 'Pro', ...tierLimits.Pro, models: ['echo-small', 'echo-large', 'echo-embed'] },
      { id: 'Platinum', ...tierLimits.Platinum, models: '*' },
    ],
    anonymous: { ...visitors, models: ['echo-small'] },
    pool: { models: ['echo-small', 'echo-large', 'echo-embed'], nodes: [node('pool-1')] },
    organisations: [
      {
        id: 'acme',
        name: 'Acme',
        tier: 'Platinum',
        members: [
          { person: 'ana', role: 'owner' },
          { person: 'vic', role: 'viewer' },
        ],
        nodes: [node('acme-1')],
        stacks: [
          {
            id: 'stk-amber-otter-9k2f',
            surface: 'openai',
            models: ['echo-large', 'echo-embed'],
            nodes: [node('acme-s1')],
          },
        ],
      },
      {
        id: 'birch',
        name: 'Birch',
        tier: 'Pro',
        members: [{ person: 'ben', role: 'admin' }],
        stacks: [
          {
            id: 'stk-quiet-heron-4m7q',
            surface: 'openai',
            models: ['echo-small'],
            nodes: [node('birch-s1')],
          },
        ],
      },
      { id: 'cedar', name: 'Cedar', tier: 'Starter', members: [{ person: 'cleo', role: 'member' }] },
    ],
  };
}

/** Builds the demo fleet with the user's own inference servers in the pool and without simulated nodes. */
export function engineFleet(
  engines: readonly { readonly url: string; readonly engine: DetectedEngine }[],
): Fleet {
  const models = [...new Set(engines.flatMap(({ engine }) => engine.models))];
  const families = (model: string): string => model.split(/[:/-]/, 1)[0] || model;
  const tier = (id: keyof typeof tierLimits): NonNullable<Fleet['tiers']>[number] => ({
    id,
    ...tierLimits[id],
    models,
  });
  const organisation = (
    id: string,
    name: string,
    on: keyof typeof tierLimits,
  ): NonNullable<Fleet['organisations']>[number] => ({ id, name, tier: on });
  return {
    version: 1,
    models: models.map((id) => ({ id, family: families(id), weight: 1 })),
    tiers: [tier('Starter'), tier('Pro'), tier('Platinum')],
    anonymous: { ...visitors, models },
    pool: {
      models,
      nodes: engines.map(({ url, engine }, index) => ({
        id: `engine-${index + 1}`,
        url,
        dialect: engine.dialect,
      })),
    },
    organisations: [
      organisation('acme', 'Acme', 'Platinum'),
      organisation('birch', 'Birch', 'Pro'),
      organisation('cedar', 'Cedar', 'Starter'),
    ],
  };
}
