/** Runs the simulation of usage counters: gateways crash, lose records, and have their folders lost, copied and restored. */
import { expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { simulateCounters } from './counters-simulation.ts';

const seeds = runs({ fast: 200, full: 800 });
const first = Number(process.env['HEADGATE_SEED'] ?? Math.floor(Math.random() * 2 ** 32));

test(`nothing is counted twice, and sums agree at rest, from seed ${first} on`, () => {
  const counts: Record<string, number> = {};
  for (let seed = first; seed < first + seeds; seed++) {
    const result = simulateCounters({ seed });
    expect({ seed, violations: result.violations }).toEqual({ seed, violations: [] });
    for (const [what, count] of Object.entries(result.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  console.log(JSON.stringify(counts));
  for (const what of [
    ...['crash', 'restart', 'append lost', 'append late', 'append doubled', 'folder lost', 'folder copied'],
    ...['folder brought back', 'conflict: another process', 'conflict: larger values'],
    ...['re-read from the beginning', 'silent replica repeated'],
  ])
    expect(counts[what], what).toBeGreaterThan(0);
});

test.each([
  'larger wins',
  'conflicts',
  'durable first',
  'repetition',
  'own from folder',
  'silent repeats',
] as const)('the simulation notices the loss of: %s', (without) => {
  let found = false;
  for (let seed = 0; seed < 400 && !found; seed++)
    found = simulateCounters({ seed, without }).violations.length > 0;
  expect(found).toBe(true);
});
