// Tests that when a replica dies, its agents find another one, and only nodes whose agents died with it go down. Runs the
// short form of `npm run soak:agents`.

import { expect, test } from 'vitest';
import { swarm } from './swarm.ts';

test('of 40 agents on two replicas, five whose engines die go down, and the others continue elsewhere', async () => {
  const figures = await swarm({ agents: 40, doomed: 5, quietSeconds: 2 });
  process.stdout.write(`${JSON.stringify(figures)}\n`);
  const { owned, reported, down, doomed } = figures;
  expect(owned[0] + owned[1]).toBe(40);
  expect(Math.min(...owned)).toBeGreaterThan(5);
  expect(figures.quietCommits).toBe(0);
  // An agent that takes longer than five seconds to find the other replica would also be in this list.
  expect(down).toEqual(doomed);
  expect(reported).toMatchObject({ joined: owned[0], down: 5, up: 0 });
  expect(figures.joinedTwice).toBe(0);
});
