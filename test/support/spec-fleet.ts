/**
 * The fleet of the specification tests, which contains every routing situation at once. Some nodes are listed in several
 * places under different ids, so that few simulated nodes suffice. Its tiers have no limits, so no request is refused by
 * chance.
 */

import type { Fleet, FleetNode } from '../../schemas/events/fleet.ts';
import type { DemoNodeId } from '../../tools/dev/demo-fleet.ts';

/** A pool model whose name contains a slash, dots and a colon. */
export const slashModel = 'team/echo:v1.0';

export const stacks = {
  /** Stack of acme that serves echo-large and echo-embed. */
  otter: 'stk-amber-otter-9k2f',
  /** Stack of acme that serves nothing. */
  idle: 'stk-idle-otter-0aaa',
  /** Stack of birch that serves echo-small. */
  heron: 'stk-quiet-heron-4m7q',
  /** Stack of the organisation dormant, which has no plan. The stack serves echo-large. */
  moth: 'stk-gentle-moth-1b1b',
  missing: 'stk-never-made-7zzz',
} as const;

export function stackHost(stack: keyof typeof stacks): string {
  return `${stacks[stack]}.stacks.test`;
}

export function specFleet(urls: Readonly<Record<DemoNodeId, string>>): Fleet {
  const node = (id: string, at: DemoNodeId): FleetNode => ({ id, url: urls[at], dialect: 'vllm' });
  const model = (id: string, weight = 1, family = 'echo') => ({ id, family, weight });
  const forAll = ['echo-small', 'echo-idle', slashModel];
  return {
    version: 1,
    models: [
      { ...model('echo-small'), added: '2026-01-02T03:04:05Z' },
      model('echo-large', 4, 'echo-xl'),
      model('echo-embed'),
      model('echo-private'),
      model(slashModel),
      // This model is installed on the pool, but no node has loaded it.
      model('echo-idle'),
      model('echo-locked'),
      // This model is in the catalogue, but no node has installed it.
      model('echo-bare'),
    ],
    tiers: [
      { id: 'Starter', models: forAll },
      { id: 'Pro', models: [...forAll, 'echo-large', 'echo-embed'] },
      { id: 'Platinum', models: '*' },
    ],
    anonymous: { freeTurns: 10, models: ['echo-small'] },
    pool: {
      models: ['echo-small', 'echo-large', 'echo-embed', slashModel, 'echo-idle', 'echo-locked'],
      nodes: [{ ...node('pool-1', 'pool-1'), models: { [slashModel]: 'echo-small' } }],
    },
    organisations: [
      {
        id: 'acme',
        name: 'Acme',
        tier: 'Platinum',
        nodes: [node('acme-1', 'acme-1')],
        stacks: [
          { id: stacks.otter, models: ['echo-large', 'echo-embed'], nodes: [node('acme-s1', 'acme-s1')] },
          { id: stacks.idle, models: ['echo-small'] },
        ],
      },
      {
        id: 'birch',
        name: 'Birch',
        tier: 'Pro',
        stacks: [{ id: stacks.heron, models: ['echo-small'], nodes: [node('birch-s1', 'birch-s1')] }],
      },
      { id: 'cedar', name: 'Cedar', tier: 'Starter' },
      // The organisation elder has nodes of its own, but its plan does not include their models.
      { id: 'elder', name: 'Elder', tier: 'Starter', nodes: [node('elder-1', 'acme-s1')] },
      {
        id: 'dormant',
        name: 'Dormant',
        tier: null,
        nodes: [node('dormant-1', 'acme-1')],
        stacks: [{ id: stacks.moth, models: ['echo-large'], nodes: [node('dormant-s1', 'acme-s1')] }],
      },
    ],
  };
}
