import fc from 'fast-check';
import { expect, test } from 'vitest';
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { known } from '../../test/support/commits.ts';
import { routeTo } from '../../test/support/forward-server.ts';
import { TestState } from '../../test/support/state.ts';
import type { CountWatch } from '../nodes/count-tokens.ts';
import { NodeLoad } from '../nodes/load.ts';
import { shapeChat } from '../surfaces/chat/shape-chat.ts';
import type { AskedRequest } from '../surfaces/common/asked.ts';
import { shapeEmbeddings } from '../surfaces/embeddings/shape-embeddings.ts';
import { type FleetLimits, LocalCounters } from './counters.ts';
import type { Gateway } from './gateway.ts';
import { reserve, reserveOrWait } from './reserve.ts';
import { answerTokens, countAtOne, minOrNull, needsExactCount } from './token-budget.ts';

const { asked: chat } = shapeChat({
  model: 'echo-small',
  messages: [{ role: 'user', content: 'a'.repeat(30) }],
});
const candidates = ['n1', 'n2', 'n3'].map((node) => routeTo('http://127.0.0.1:1', { node }));

type Answer = (watch: CountWatch) => number | undefined;

/** Lets one of three nodes count tokens. The first node that is asked gives the first answer, and so on. */
async function count(answers: readonly Answer[], shaped: AskedRequest = chat) {
  const load = new NodeLoad({ random: () => 0 });
  const asked: string[] = [];
  const busy: number[] = [];
  const counted = await countAtOne(
    {
      load,
      countTokens: async ({ node }, _shaped, _owner, watch = {}) => {
        busy.push(load.inFlight(node));
        return answers[asked.push(node) - 1]?.(watch);
      },
    },
    candidates,
    { asked: shaped, owner: 'one' },
    (left) => load.choose(left),
  );
  expect(busy.every((requests) => requests === 1)).toBe(true);
  expect(load.inFlightTotal()).toBe(0);
  return { ...counted, candidates: counted.candidates.map(({ node }) => node), asked, load };
}
const answering =
  (tokens: number | undefined): Answer =>
  (watch) => {
    watch.onSent?.();
    return tokens;
  };
const unreached: Answer = (watch) => {
  watch.onUnreached?.();
  return undefined;
};
const cannot: Answer = () => undefined;

test('What the service does 2, Limits 3: only the node that counted the prompt may answer', async () => {
  const { tokens, candidates: left, asked } = await count([answering(7)]);
  expect({ tokens, left }).toEqual({ tokens: 7, left: asked });
  expect(asked).toHaveLength(1);
});

test('What the service does 2: a node that received the text but counted nothing is still the only one to answer', async () => {
  const { tokens, candidates: left, asked } = await count([answering(undefined)]);
  expect({ tokens, left }).toEqual({ tokens: undefined, left: asked });
  expect(asked).toHaveLength(1);
});

test('until the text is sent, the next candidate is asked, and an unreachable one is set aside', async () => {
  const { tokens, candidates: left, asked, load } = await count([unreached, cannot, answering(0)]);
  expect(tokens).toBe(0);
  expect(new Set(asked).size).toBe(3);
  expect(left).toEqual([asked[2]]);
  expect(load.isEjected(asked[0] ?? '')).toBe(true);
  expect(load.isEjected(asked[1] ?? '')).toBe(false);
});

test('if no node can count, every candidate may answer', async () => {
  const { tokens, candidates: left, asked } = await count([cannot, cannot, cannot]);
  expect(tokens).toBeUndefined();
  expect(left).toEqual(['n1', 'n2', 'n3']);
  expect(asked).toHaveLength(3);
});

test('embeddings are judged by their bounds and sent to no node for counting', async () => {
  const { asked: embeddings } = shapeEmbeddings({ model: 'm', input: 'a' });
  const { asked, candidates: left } = await count([answering(7)], embeddings);
  expect(asked).toEqual([]);
  expect(left).toEqual(['n1', 'n2', 'n3']);
});

test.each([
  ['tokens requested, no window known', { asked: 50, windowTokens: null }, 50],
  ['zero tokens requested, no window known', { asked: 0, windowTokens: null }, 0],
  ['nothing requested, no window known', { asked: undefined, windowTokens: null }, 4096],
  ['requested tokens that fit', { asked: 50, windowTokens: 1000 }, 50],
  ['more tokens requested than are available', { asked: 5000, windowTokens: 1000 }, 900],
  ['zero tokens requested', { asked: 0, windowTokens: 1000 }, 0],
  ['nothing requested: the tokens that are surely free', { asked: undefined, windowTokens: 1000 }, 700],
  ['nothing requested, bound near the window: a quarter', { asked: undefined, windowTokens: 320 }, 80],
  ['nothing requested, estimate near the window', { asked: undefined, windowTokens: 110 }, 10],
  ['a prompt as large as the window', { asked: 50, windowTokens: 100 }, 1],
  ['a prompt larger than the window', { asked: undefined, windowTokens: 50 }, 1],
])('the length allowed for an answer: %s', (_name, room, tokens) => {
  expect(answerTokens({ ...room, promptBound: 300, promptEstimate: 100 })).toBe(tokens);
});

test.each([
  ['no window known', { asked: 5000, windowTokens: null }, false],
  ['requested tokens that surely fit', { asked: 700, windowTokens: 1000 }, false],
  ['one token more than surely fits', { asked: 701, windowTokens: 1000 }, true],
  [
    'nothing requested, and a quarter of the window is surely free',
    { asked: undefined, windowTokens: 400 },
    false,
  ],
  ['nothing requested, and less surely free', { asked: undefined, windowTokens: 398 }, true],
])('whether a prompt is counted before its answer gets a length: %s', (_name, room, tight) => {
  expect(needsExactCount({ ...room, promptBound: 300, promptEstimate: 100 })).toBe(tight);
});

test('an answer gets at most the requested and likely free tokens, and at least one if any is requested', () => {
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
])('the smaller limit of %s and %s is %s', (a, b, smaller) => {
  expect(minOrNull(a, b)).toBe(smaller);
});

const none = () => 0;
const ofVisitor = (n: number) => ({
  ...{ caller: { kind: 'anonymous' as const, visitor: `v-${n}` }, target: { kind: 'shared' as const } },
  ...{ model: 'echo-small', surface: 'openai' as const, reranks: false, promptTokensMax: 1, maxTokens: 1 },
});

/** Returns a gateway that serves visitors and whose limits on all visitors together are `total`. */
function gatewayOf(total: object, fleet?: FleetLimits) {
  const limits = { contextTokens: 100, models: '*' as const, freeTurns: 100 };
  const { db } = new TestState().given([known('anonymous.set', { ...limits, requestsPerMinute: 1, total })]);
  db.exec('CREATE TABLE position (seq INTEGER NOT NULL)');
  const usage = { poolTokensAt: none, freeTurns: none, networkTurns: none, visitorTokens: none };
  const counters = new LocalCounters(usage, fleet);
  const gateway = {
    ...{ lookup: createLookup(db), counters, meter: { isFull: false } },
    ...{ fenced: () => false, now: none },
  } as unknown as Gateway;
  return { gateway, counters };
}

test('Limits 1: all visitors together may cancel as many requests per minute as their tier allows', async () => {
  const { gateway, counters } = gatewayOf({ requestsPerMinute: 3 });
  for (let n = 0; n < 4; n++) {
    const { decision, lease } = reserve(gateway, ofVisitor(n), counters);
    lease.cancel(decision.tier.requestsPerMinute);
    expect(counters.window(`visitor:v-${n}`, 0).used).toBe(0);
    expect(counters.window(visitorsSubject, 0).used).toBe(Math.max(0, n - 2));
  }
});

test('Limits 1, Limits 2: after waiting for one limit, a request has the full time for the next, but no longer', async () => {
  const asked: [string, number][] = [];
  const nameOf = ({ window }: Limit) => (window === inFlightWindow ? 'in flight' : 'minute');
  const { gateway, counters } = gatewayOf(
    { requestsPerMinute: 3, concurrency: 3 },
    {
      ...{ clockAheadMs: 0, periodsAheadMs: 0, known: () => ({ used: 0, held: 0 }), add: none, remove: none },
      // After the first wait, there is room in the minute, but there is never room for another request in flight.
      taken: (limit) => (nameOf(limit) === 'minute' && asked.length > 0 ? 0 : limit.limit),
      waitForRoom: (limit, _weight, untilMs) => {
        asked.push([nameOf(limit), untilMs]);
        return asked.length > 2 ? undefined : new Promise((resolve) => setImmediate(resolve, true));
      },
    },
  );
  const client = { gone: new AbortController().signal };
  await expect(reserveOrWait(gateway, ofVisitor(0), client, counters)).rejects.toThrow(Refusal);
  const [[, first], [, second]] = asked as [[string, number], [string, number]];
  expect(asked).toEqual([
    ['minute', first],
    ['in flight', second],
    ['in flight', second],
  ]);
  expect(second).toBeGreaterThan(first);
});
