/** Draws a fleet from the seed: its organisations, stacks, models and nodes, both as a fleet file and as machines. */
import type { Fleet as FleetFile } from '../../schemas/events/fleet.ts';
import type { Scheduler } from './scheduler.ts';

export const models = ['echo-small', 'echo-large', 'echo-embed', 'echo-private'] as const;
export const stacks = ['stk-amber-otter-1', 'stk-blue-finch-2', 'stk-calm-heron-3'] as const;
export const organisations = Array.from({ length: 8 }, (_, n) => `org-${n + 1}`);
export const tiers = ['Starter', 'Team', 'Platinum'] as const;

export interface NodePlan {
  /** Where the node serves: `pool`, or the id of a stack or an organisation. */
  readonly place: string;
  readonly models: readonly string[];
  /** Whether the node has an agent. If not, a control plane probes it. */
  readonly hasAgent: boolean;
  /** Number of tokens per second that the node sends in a stream. If it is 0, the node sends them as fast as possible. */
  readonly tokensPerSecond: number;
}

/** Plan of each node, keyed by the node's id. */
export type NodePlans = Readonly<Record<string, NodePlan>>;

export function planNodes(scheduler: Scheduler): NodePlans {
  const some = (): string[] => {
    const chosen = models.filter(() => scheduler.chance(0.6));
    return chosen.length > 0 ? chosen : [scheduler.pick(models)];
  };
  const places = [
    ...['pool', 'pool', 'pool', 'pool'],
    ...stacks.flatMap((stack) => [stack, stack]).slice(0, 4),
    ...organisations.slice(0, 2),
  ];
  const plan = (place: string): NodePlan => ({
    ...{
      place,
      models: some(),
      hasAgent: scheduler.chance(0.4),
      tokensPerSecond: scheduler.pick([0, 10, 40]),
    },
  });
  return Object.fromEntries(places.map((place, n) => [`node-${n + 1}`, plan(place)]));
}

export function fleetFile(nodes: NodePlans, url: (node: string) => string, scheduler: Scheduler): FleetFile {
  const at = (place: string) =>
    Object.entries(nodes)
      .filter(([, node]) => node.place === place)
      .map(([id, { hasAgent }]) => ({ id, url: url(id), dialect: 'vllm' as const, agent: hasAgent }));
  const limits = { requestsPerMinute: 600, concurrency: 40, contextTokens: 8192, monthlyTokens: 50_000_000 };
  return {
    version: 1,
    models: models.map((id) => ({ id, family: 'echo', weight: id === 'echo-large' ? 4 : 1 })),
    tiers: [
      {
        id: 'Starter',
        ...limits,
        requestsPerMinute: 20,
        concurrency: 4,
        models: ['echo-small', 'echo-large'],
      },
      {
        id: 'Team',
        ...limits,
        requestsPerMinute: 40,
        concurrency: 12,
        models: ['echo-small', 'echo-large', 'echo-embed'],
      },
      { id: 'Platinum', ...limits, models: '*' },
    ],
    pool: { models: models.filter(() => scheduler.chance(0.8)), nodes: at('pool') },
    organisations: organisations.map((id, n) => ({
      id,
      name: id,
      tier: tiers[n % tiers.length] as string,
      nodes: at(id),
      // The first two organisations share the three stacks.
      stacks: stacks
        .filter((_, index) => index % 2 === n)
        .map((stack) => ({
          id: stack,
          surface: 'openai' as const,
          models: models.filter(() => scheduler.chance(0.7)),
          nodes: at(stack),
        })),
    })),
  };
}
