/**
 * Simulates the rule by which readers accept records: thousands of seeded runs in which three writers share a log that loses,
 * duplicates and delays records, and to which an outsider writes too. If a clause of the rule is left out, or if a writer
 * trusts acknowledgements, the same runs must find violations, which shows that they can. To repeat a failing run, set
 * HEADGATE_SEED to the printed seed.
 */

import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { simulate } from '../../../test/contract/log-simulation.ts';
import { ModelWriter, type OpenWriter } from '../../../test/contract/model-writer.ts';
import { runs } from '../../../test/support/budget.ts';
import { type ChainRule, chainRules } from './chain.ts';

const baseSeed = Number(process.env['HEADGATE_SEED'] ?? randomInt(2 ** 32));
const simulations = runs({ fast: 300, full: 600 });
/** Number of runs within which a violation must be found if a clause of the rule is left out. Usually, few are needed. */
const runsUntilViolation = 3000;
const openWriter: OpenWriter = (parts) => new ModelWriter(parts);

test(`an acknowledged command counts once, a refused one never, and all readers agree, from seed ${baseSeed} on`, async () => {
  console.log(`HEADGATE_SEED=${baseSeed}`);
  const counts: Record<string, number> = {};
  for (let seed = baseSeed; seed < baseSeed + simulations; seed++) {
    const result = await simulate({ seed, openWriter });
    expect(result.violations, `HEADGATE_SEED=${seed}`).toEqual([]);
    for (const [what, count] of Object.entries(result.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  console.log(JSON.stringify(counts));
  // Every outcome, fault and clause must have occurred several times. Otherwise the runs would prove nothing.
  const met = [
    ...['accepted', 'refused', 'conflict', 'unknown'].map((outcome) => `command ${outcome}`),
    ...['lost', 'duplicated', 'delayed', 'ack-lost', 'refused'].map((fault) => `append ${fault}`),
    ...chainRules.map((rule) => `skipped by ${rule.name}`),
    'record forged',
  ];
  for (const what of met) expect(counts[what] ?? 0, what).toBeGreaterThan(simulations / 150);
}, 240_000);

async function violationsOf(options: {
  rules?: readonly ChainRule[];
  forgeries?: boolean;
  openWriter?: OpenWriter;
}): Promise<readonly string[]> {
  for (let seed = baseSeed; seed < baseSeed + runsUntilViolation; seed++) {
    const { violations } = await simulate({ seed, openWriter, ...options });
    if (violations.length > 0) return violations;
  }
  return [];
}

test.each(chainRules.map((rule) => rule.name))(
  'without the rule on %s, the simulation finds violations',
  async (name) => {
    const rules = chainRules.filter((rule) => rule.name !== name);
    expect(await violationsOf({ rules })).not.toEqual([]);
  },
);

test('without chain positions, writers harm each other even without an outsider', async () => {
  const rules = chainRules.filter((rule) => rule.name !== 'seq' && rule.name !== 'prev');
  expect(await violationsOf({ rules, forgeries: false })).not.toEqual([]);
});

test('a writer that treats an acknowledged append as a completed command is detected', async () => {
  const credulous: OpenWriter = (parts) => new ModelWriter(parts, { believesAcknowledgements: true });
  expect(await violationsOf({ openWriter: credulous })).not.toEqual([]);
});

test('a seed determines its run', async () => {
  const once = await simulate({ seed: baseSeed, openWriter });
  expect((await simulate({ seed: baseSeed, openWriter })).counts).toEqual(once.counts);
});
