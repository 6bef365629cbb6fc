/**
 * Checks that the golden decisions cover every rule. Each refusal and each row of the design's tables is disabled in turn,
 * and at least one golden decision must then differ. If none differs, the rule is not tested.
 */
import { afterAll, expect, test } from 'vitest';
import { answersByType, failingCases, goldenCases, openCorpus } from '../replay/decisions/corpus.ts';
import { decidingModules, MutatedModules } from './mutated-modules.ts';
import { goldenMutations, type Mutation } from './mutations.ts';

type Replay = typeof import('../replay/decisions/replay.ts');

const mutations = goldenMutations();
const corpus = openCorpus();
const modules = new MutatedModules();
afterAll(() => {
  corpus.close();
  modules.close();
});

/** Returns the differences between a build and the golden decisions. */
async function findings(mutation?: Mutation): Promise<string[]> {
  const path = modules.build('test/replay/decisions/replay.ts', mutation);
  const { replayDecision } = (await import(path)) as Replay;
  const failing = failingCases(corpus, replayDecision);
  if (failing.length > 0) return failing;
  return [...answersByType(corpus, replayDecision)]
    .filter(([, answers]) => answers.size !== 1)
    .map(([type, answers]) => `${type} has ${answers.size} answers`);
}

test('an unchanged build gives every golden decision', async () => {
  expect(await findings()).toEqual([]);
});

test.each(mutations.map((mutation) => [mutation.rule, mutation] as const))(
  'the golden decisions notice the loss of: %s',
  async (_rule, mutation) => {
    const found = await findings(mutation);
    // Ignores decisions that threw, because a build that cannot decide at all proves nothing about the rule.
    expect(found.filter((finding) => !finding.includes(': threw '))).not.toEqual([]);
    expect(found.length, found.slice(0, 3).join('\n')).toBeLessThan(goldenCases.length);
  },
);

test('a change without effect goes unnoticed, so that only rules are noticed', async () => {
  const harmless: Mutation = {
    rule: 'none',
    module: 'shared/decision/limits.ts',
    from: 'tier.contextTokens === null ||',
    to: 'null === tier.contextTokens ||',
    tests: [],
  };
  expect(await findings(harmless)).toEqual([]);
});

test('some mutation changes every deciding module', () => {
  const changed = new Set(mutations.map(({ module }): string => module));
  // These modules need no mutation, because they only pass on decisions that other modules make.
  const carriers = [
    'control-plane/explain/recorded-counters.ts',
    'shared/decision/refusal.ts',
    'shared/decision/trace.ts',
    'test/replay/decisions/replay.ts',
  ];
  expect(decidingModules.filter((module) => !changed.has(module)).sort()).toEqual(carriers.sort());
});
