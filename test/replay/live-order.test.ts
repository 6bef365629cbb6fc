/**
 * Tests the order of those checks that only live serving makes: the body, the caller's usage, and the outbox. The key is
 * checked before the plan, and limits and routing come last.
 */
import { afterAll, expect, test } from 'vitest';
import { factsOf, type GoldenCase, goldenCases, openCorpus } from './decisions/corpus.ts';
import { type LiveOptions, serveLive } from './decisions/live.ts';

const corpus = openCorpus();
afterAll(() => corpus.close());

/** Decides a golden case with additional facts by live serving. Returns the reason if the request is refused. */
async function decided(
  name: string,
  { outboxFull = false, ...live }: LiveOptions & { outboxFull?: boolean },
) {
  const golden = goldenCases.find((each) => each.name === name) as GoldenCase;
  const decision = await serveLive(corpus.at(golden), { ...factsOf(golden), outboxFull }, live);
  return decision.kind === 'refused' ? decision.reason : decision.kind;
}

const pooled = 'the shared host by name';
const pinned = 'a stack host in capitals and with a port';

test.each([
  [
    'a key that is not accepted',
    'the outbox is full and a revoked key is refused all the same',
    'revoked',
    {},
  ],
  ['an unknown path', 'an unknown path with a key', 'NotFoundError', {}],
  ['a malformed body', pooled, 'UnsupportedShapeError', { body: '{"model":"echo-small"}' }],
])('%s is refused as such, whether or not usage can be recorded', async (_what, name, reason, live) => {
  expect(await decided(name, live)).toBe(reason);
  expect(await decided(name, { ...live, outboxFull: true })).toBe(reason);
  expect(await decided(name, { ...live, knowsUsage: false })).toBe(reason);
});

test('a pool request waits for its caller’s usage, and is refused if that cannot be loaded', async () => {
  expect(await decided(pooled, {})).toBe('placed');
  expect(await decided(pooled, { knowsUsage: false })).toBe('usage unknown');
  expect(await decided('the allowance is used up: the message says which tier is next', {})).toBe(
    'InferenceUpsellError',
  );
});

test('a pinned request uses no allowance, so that it does not wait for its caller’s usage', async () => {
  expect(await decided(pinned, { knowsUsage: false })).toBe('placed');
});
