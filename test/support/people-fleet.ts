import type { Fleet } from '../../schemas/events/fleet.ts';

/** Id of a stack of the organisation acme. */
export const amber = 'stk-amber-otter-9k2f';

/** The person with each role in acme. */
export const persons = {
  owner: 'olga',
  admin: 'ada',
  approver: 'pia',
  member: 'mia',
  viewer: 'vic',
} as const;

/** A fleet file with two organisations. acme has a person for each role, and one of them also belongs to birch. */
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
