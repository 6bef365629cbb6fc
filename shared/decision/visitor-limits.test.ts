import { afterAll, expect, test } from 'vitest';
import { buildFacts, decideInState, type Question } from '../../control-plane/explain/question.ts';
import { fixedCounters } from '../../control-plane/explain/recorded-counters.ts';
import { known, recordsOf } from '../../test/support/commits.ts';
import { createLookup } from '../snapshot/lookup.ts';
import { memorySnapshot } from '../snapshot/open-snapshot.ts';
import { type Counters, decide, type RequestFacts } from './decide.ts';

const limits = {
  freeTurns: 2,
  networkFactor: 3,
  requestsPerMinute: 50,
  concurrency: 5,
  models: ['echo'],
  total: { requestsPerMinute: 100, concurrency: 10, tokensPerDay: 1000 },
};

const snapshot = memorySnapshot();
afterAll(() => snapshot.db.close());
snapshot.apply(
  recordsOf([
    [known('model.set', { id: 'echo', family: 'echo', added: '2026-01-01T00:00:00Z', weight: 1 })],
    [known('pool.model_installed', { model: 'echo' })],
    [known('anonymous.set', limits)],
  ]),
);

type CounterValues = Partial<Question['counters']>;

function asked(counters: CounterValues, network: string | null = 'n-1') {
  const facts = buildFacts({
    ...{ operation: 'chat', host: 'shared', model: 'echo', visitor: 'v-1', network: network ?? undefined },
    ...{ promptTokensMax: 1, promptTokensLeast: undefined, maxTokens: 1 },
    credential: { fault: 'missing', carried: false },
  });
  const none = { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0, networkTurns: 0 };
  const visitors = { windowUsed: 0, inFlight: 0, tokens: 0 };
  const question: Question = {
    ...{ facts, fenced: false, outboxFull: false, nowMs: Date.UTC(2026, 10, 22) },
    counters: { ...none, visitors, ...counters },
  };
  const { verdict, trace } = decideInState(snapshot.db, question);
  if (verdict.kind !== 'refused') throw new Error('no node serves it');
  const step = trace.steps.find(({ refusal }) => refusal !== undefined)?.step;
  const { type, message, retryAfterSeconds, exhausted } = verdict.refusal;
  return { type, step, message, retryAfterSeconds, exhausted };
}

/** Result for a visitor within all limits. A later step refuses the request, because the fleet in this test has no nodes. */
const passed = { type: 'InferenceUnavailableError', step: 'nodes' };

test.each<[string, CounterValues, object]>([
  ['no use', {}, passed],
  ['a network just below its turns', { networkTurns: 5 }, passed],
  [
    'a network at three times a visitor’s turns',
    { networkTurns: 6 },
    { type: 'InferenceUpsellError', step: 'network allowance', message: expect.stringContaining('Sign in') },
  ],
  ['own and network turns used up', { networkTurns: 6, freeTurns: 2 }, { step: 'allowance' }],
  [
    'all visitors’ tokens used up',
    { visitors: { windowUsed: 100, inFlight: 10, tokens: 1000 } },
    {
      type: 'InferenceUpsellError',
      step: 'visitor tokens',
      message: expect.stringContaining('anonymous tier'),
    },
  ],
  ['just below all visitors’ tokens', { visitors: { windowUsed: 99, inFlight: 9, tokens: 999 } }, passed],
  [
    'all visitors’ requests used up',
    { visitors: { windowUsed: 100, inFlight: 10, tokens: 0 } },
    {
      ...{
        type: 'InferenceRateLimitedError',
        step: 'visitor requests',
        retryAfterSeconds: expect.any(Number),
      },
      exhausted: { kind: 'rate', subject: 'visitors:all', limit: 100, weight: 1 },
    },
  ],
  [
    'own and all visitors’ requests used up',
    { windowUsed: 50, visitors: { windowUsed: 100, inFlight: 0, tokens: 0 } },
    { step: 'requests' },
  ],
  [
    'all visitors’ concurrency used up',
    { visitors: { windowUsed: 0, inFlight: 10, tokens: 0 } },
    {
      ...{ type: 'InferenceConcurrencyLimitedError', step: 'visitor concurrency', retryAfterSeconds: 1 },
      exhausted: { kind: 'concurrency', subject: 'visitors:all', limit: 10, weight: 1 },
    },
  ],
])('Limits 4: a visitor with %s', (_name, counters, expected) => {
  expect(asked(counters)).toMatchObject(expected);
});

test('a visitor without a network is limited only by their own turns', () => {
  expect(asked({ networkTurns: 1000 }, null)).toMatchObject(passed);
});

test('all of a visitor’s use is counted at the time of admission', () => {
  const [admittedMs, nowMs] = [Date.UTC(2026, 10, 30, 23, 59, 59), Date.UTC(2026, 11, 1)];
  const moments: number[] = [];
  const used = (_subject: string, atMs: number): number => moments.push(atMs) - moments.length;
  const counters: Counters = {
    window: () => ({ used: 0, endsAtMs: nowMs }),
    inFlight: () => 0,
    poolTokens: () => 0,
    freeTurns: used,
    networkTurns: used,
    visitorTokens: (atMs) => used('', atMs),
  };
  const caller = { kind: 'anonymous', visitor: 'v-1', network: 'n-1', admittedMs } as const;
  const facts: RequestFacts = {
    ...{ target: { kind: 'shared' }, caller, model: 'echo', surface: 'openai', reranks: false },
    ...{ promptTokensMax: 1, maxTokens: 1 },
  };
  decide(createLookup(snapshot.db), counters, facts, nowMs);
  expect(moments).toEqual([admittedMs, admittedMs, admittedMs]);
});

test('each subject reads its own numbers from recorded counters', () => {
  const visitors = { windowUsed: 3, inFlight: 2, tokens: 1 };
  const counters = fixedCounters({
    windowUsed: 9,
    inFlight: 8,
    poolTokens: 7,
    freeTurns: 6,
    networkTurns: 5,
    visitors,
  });
  expect([counters.window('visitors:all', 0, 1).used, counters.window('visitor:v', 0, 1).used]).toEqual([
    3, 9,
  ]);
  expect([counters.inFlight('visitors:all', 1, 1), counters.inFlight('visitor:v', 1, 1)]).toEqual([2, 8]);
  expect([counters.visitorTokens(0), counters.networkTurns('n', 0)]).toEqual([1, 5]);
});
