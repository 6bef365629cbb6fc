import type { Fleet } from '../../schemas/events/fleet.ts';

/** The stack of acme. */
export const amber = 'stk-amber-otter-9k2f';

/** Who has each role in acme. */
export const persons = {
  owner: 'olga',
  admin: 'ada',
  approver: 'pia',
  member: 'mia',
  viewer: 'vic',
} as const;

/** Two organisations: a person of each role is in acme, and one of them in birch, too. */
export const peopleFleet: Fleet = {
  version: 1,
  models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
  tiers: [{ id: 'Pro', models: '*' }],
  pool: { models: ['echo-small'], nodes: [{ id: 'n1', url: 'http://127.0.0.1:9', dialect: 'vllm' }] },
  organisations: [
    {
      ...{ id: 'acme', name: 'Acme', tier: 'Pro' },
      members: Object.entries(persons).map(([role, person]) => ({
        person,
        role: role as keyof typeof persons,
      })),
      stacks: [{ id: amber, surface: 'openai', models: ['echo-small'] }],
    },
    {
      ...{ id: 'birch', name: 'Birch', tier: 'Pro' },
      members: [
        { person: 'ben', role: 'owner' },
        { person: 'mia', role: 'member' },
      ],
    },
  ],
};
