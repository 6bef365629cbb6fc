import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { openCorpus } from '../../test/replay/decisions/corpus.ts';
import { answerTokens, estimateTokens, isTight, promptTokens, smallerOf } from './context.ts';
import type { RequestFacts } from './decide.ts';
import { shapeChat } from './shape.ts';

const corpus = openCorpus();
afterAll(() => corpus.close());
const lookup = corpus.at(10);
const tier = lookup.anonymousTier();

const chat = shapeChat(
  Buffer.from(JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'a'.repeat(30) }] })),
  'application/json',
);
const owner = {
  keyId: 'k',
  organisation: 'cedar',
  revoked: false,
  expiresAtMs: null,
  suspended: false,
  anchor: '2026-11-01',
  tier: {
    id: 'Starter',
    rank: 0,
    requestsPerMinute: null,
    concurrency: null,
    contextTokens: 1,
    monthlyTokens: null,
    freeTurns: null,
  },
};
const facts: RequestFacts = {
  target: { kind: 'shared' },
  caller: { kind: 'key', owner },
  model: 'echo-small',
  path: 'openai',
  promptTokens: 10_000,
  maxTokens: undefined,
};

/** Asks, and tells which nodes were asked. */
async function ask(change: Partial<RequestFacts>, counted: number | undefined) {
  const asked: string[] = [];
  const tokens = await promptTokens(lookup, { ...facts, ...change }, chat, async ({ node }) => {
    asked.push(node);
    return counted;
  });
  return { tokens, asked };
}

test('Limits 3: the routed node counts the prompt, and only one node is asked', async () => {
  expect(await ask({}, 7)).toEqual({ tokens: 7, asked: ['pool-1'] });
  expect(await ask({ caller: { kind: 'anonymous', visitor: 'v1' } }, 7)).toEqual({
    tokens: 7,
    asked: ['pool-1'],
  });
  const acme = { kind: 'key', owner: { ...owner, organisation: 'acme' } } as const;
  expect((await ask({ caller: acme }, 7)).asked).toEqual(['acme-own']);
  const stack = { target: { kind: 'stack', stack: 'stk-amber-otter-9k2f' }, model: 'echo-large' } as const;
  expect((await ask({ caller: acme, ...stack }, 7)).asked).toEqual(['otter-1']);
});

test('Limits 3: where the node cannot count, or counts nothing, its word is taken or the bytes are', async () => {
  expect((await ask({}, undefined)).tokens).toBe(estimateTokens(chat));
  expect((await ask({}, 0)).tokens).toBe(0);
});

test.each<[string, Partial<RequestFacts>]>([
  ['a model of no pool', { model: 'no-such-model' }],
  ['a model outside the plan', { model: 'echo-large' }],
  ['a foreign stack', { target: { kind: 'stack', stack: 'stk-amber-otter-9k2f' }, model: 'echo-large' }],
  ['a missing stack', { target: { kind: 'stack', stack: 'stk-never-made-7zzz' } }],
  ['an organisation without a plan', { caller: { kind: 'key', owner: { ...owner, tier: null } } }],
])('no node is asked for %s', async (_name, change) => {
  expect(await ask(change, 7)).toEqual({ tokens: estimateTokens(chat), asked: [] });
});

test('the free tier is there for a visitor', () => {
  expect(tier?.id).toBe('anonymous');
});

test.each([
  [0, 8],
  [1, 9],
  [3, 9],
  [4, 10],
  [3000, 1008],
])('%s bytes of text are taken for %s tokens', (textBytes, tokens) => {
  expect(estimateTokens({ textBytes })).toBe(tokens);
});

test.each([
  ['asked, no window known', { asked: 50, windowTokens: null }, 50],
  ['asked nothing at all, no window known', { asked: 0, windowTokens: null }, 0],
  ['nothing asked, no window known', { asked: undefined, windowTokens: null }, 4096],
  ['asked and fits', { asked: 50, windowTokens: 1000 }, 50],
  ['asked more than there is', { asked: 5000, windowTokens: 1000 }, 900],
  ['asked nothing at all', { asked: 0, windowTokens: 1000 }, 0],
  ['nothing asked: what is surely free', { asked: undefined, windowTokens: 1000 }, 700],
  ['nothing asked, bound near the window: a quarter', { asked: undefined, windowTokens: 320 }, 80],
  ['nothing asked, estimate near the window', { asked: undefined, windowTokens: 110 }, 10],
  ['a prompt as large as the window', { asked: 50, windowTokens: 100 }, 1],
  ['a prompt larger than the window', { asked: undefined, windowTokens: 50 }, 1],
])('an answer may have: %s', (_name, room, tokens) => {
  expect(answerTokens({ ...room, promptBound: 300, promptEstimate: 100 })).toBe(tokens);
});

test.each([
  ['no window known', { asked: 5000, windowTokens: null }, false],
  ['asked and surely fits', { asked: 700, windowTokens: 1000 }, false],
  ['asked one more', { asked: 701, windowTokens: 1000 }, true],
  [
    'nothing asked, and a quarter of the window is surely free',
    { asked: undefined, windowTokens: 400 },
    false,
  ],
  ['nothing asked, and it is not', { asked: undefined, windowTokens: 398 }, true],
])('a prompt is counted before its answer is given a length: %s', (_name, room, tight) => {
  expect(isTight({ ...room, promptBound: 300, promptEstimate: 100 })).toBe(tight);
});

test('an answer never has more than was asked, never more than what is likely free, and at least one token where any is asked', () => {
  const room = fc.record({
    asked: fc.option(fc.nat(10_000), { nil: undefined }),
    windowTokens: fc.integer({ min: 1, max: 10_000 }),
    promptEstimate: fc.nat(12_000),
    slack: fc.nat(12_000),
  });
  fc.assert(
    fc.property(room, ({ asked, windowTokens, promptEstimate, slack }) => {
      const tokens = answerTokens({
        asked,
        windowTokens,
        promptEstimate,
        promptBound: promptEstimate + slack,
      });
      expect(Number.isInteger(tokens)).toBe(true);
      expect(tokens).toBeLessThanOrEqual(asked ?? windowTokens);
      expect(tokens).toBeLessThanOrEqual(Math.max(1, windowTokens - promptEstimate));
      expect(tokens).toBeGreaterThanOrEqual(asked === 0 ? 0 : 1);
      if (asked === undefined) expect(tokens).toBeGreaterThanOrEqual(windowTokens - promptEstimate - slack);
    }),
    { numRuns: 1000 },
  );
});

test.each([
  [1, 2, 1],
  [2, 1, 1],
  [null, 2, 2],
  [2, null, 2],
  [0, null, 0],
  [null, null, null],
])('of %s and %s the smaller limit is %s', (a, b, smaller) => {
  expect(smallerOf(a, b)).toBe(smaller);
});
