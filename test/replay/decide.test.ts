/**
 * Tests the golden decisions: requests that are decided again at their positions in a recorded log must get the same
 * decisions in every build. The corpus only ever grows. If a line no longer holds, the service breaks a promise.
 */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import {
  answersByType,
  corpusHosts,
  differences,
  factsOf,
  failingCases,
  type GoldenCase,
  goldenCases,
  openCorpus,
  recordsOfCorpus,
} from './decisions/corpus.ts';
import { serveLive } from './decisions/live.ts';
import { replayDecision } from './decisions/replay.ts';

const corpus = openCorpus();
afterAll(() => corpus.close());

test.each(goldenCases.map((each) => [each.name, each.clause, each] as const))(
  'at its position, "%s" (%s) is decided as ever',
  (_name, _clause, each) => {
    const decision = replayDecision(corpus.at(each), factsOf(each), corpusHosts);
    expect(differences(each.decision, decision)).toEqual([]);
  },
);

// Leaves out visitors, who do not use a host, and cases with given token counts, because live serving counts prompts itself.
const live = goldenCases.filter((each) => each.visitor === undefined && each.promptTokens === undefined);

test('live serving decides as replay does, including host and headers', async () => {
  for (const each of live) {
    const facts = factsOf(each);
    const served = await serveLive(corpus.at(each), facts);
    expect(served, each.name).toEqual(replayDecision(corpus.at(each), facts, corpusHosts));
  }
  expect(live.length).toBeGreaterThan(150);
});

test('one snapshot that follows the log decides like separate snapshots at each position', () => {
  const snapshot = memorySnapshot();
  const lookup = createLookup(snapshot.db);
  for (const record of recordsOfCorpus()) {
    snapshot.apply([record]);
    const now = goldenCases.filter(({ atSeq }) => atSeq === lookup.position());
    for (const each of now) {
      const view = each.gateway === undefined ? 'base' : { gateway: each.gateway };
      const failing = snapshot.stateAt({ kind: 'present', view }, () =>
        failingCases({ at: () => lookup, close: () => undefined }, replayDecision, [each]),
      );
      expect(failing).toEqual([]);
    }
  }
  expect(snapshot.skipped).toBe(0);
  snapshot.db.close();
});

test('any facts at any position give a decision, and nothing is thrown', () => {
  const positions = [...new Set(goldenCases.map(({ atSeq }) => atSeq))];
  const text = fc.string({ unit: 'binary', maxLength: 40 });
  const some = <Value>(values: readonly (Value | undefined)[]) =>
    fc.constantFrom(...values.filter((value): value is Value => value !== undefined));
  const whole = goldenCases.map(factsOf);
  const maybe = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined });
  const facts = fc.record({
    host: maybe(fc.oneof(some(whole.map(({ host }) => host)), text)),
    authorization: maybe(fc.oneof(some(whole.map(({ authorization }) => authorization)), text)),
    xApiKey: maybe(fc.oneof(some(whole.map(({ xApiKey }) => xApiKey)), text)),
    method: fc.oneof(fc.constantFrom('GET', 'POST'), text),
    path: fc.oneof(some(whole.map(({ path }) => path)), text),
    model: fc.oneof(some(whole.map(({ model }) => model)), text),
    promptTokensMax: fc.nat(200_000),
    maxTokens: maybe(fc.nat(200_000)),
    counters: some(whole.map(({ counters }) => counters)),
    nowMs: fc.integer({ min: 0, max: 4e12 }),
    fenced: fc.boolean(),
    outboxFull: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.constantFrom(...positions), facts, (seq, each) => {
      expect(['refused', 'placed', 'listed']).toContain(
        replayDecision(corpus.at(seq), each, corpusHosts).kind,
      );
    }),
    { numRuns: 1000 },
  );
});

test('the whole golden log is folded: no event is malformed, unknown or skipped by accident', () => {
  const records = recordsOfCorpus();
  const snapshot = memorySnapshot();
  expect(snapshot.apply(records).consumed).toBe(records.length);
  expect(snapshot.head.seq).toBe(records.length);
  snapshot.db.close();
});

test('the same facts give different decisions at different positions', () => {
  const facts = goldenCases.filter(({ decision }) => decision.kind !== 'listed');
  const ages = new Map<string, Set<string>>();
  const first = Math.min(...goldenCases.map(({ atSeq }) => atSeq));
  const last = Math.max(...goldenCases.map(({ atSeq }) => atSeq));
  for (const each of facts) {
    const seen = new Set<string>();
    for (const seq of [first, each.atSeq, last])
      seen.add(JSON.stringify(replayDecision(corpus.at(seq), factsOf(each), corpusHosts)));
    ages.set(each.name, seen);
  }
  expect([...ages.values()].filter((seen) => seen.size > 1).length).toBeGreaterThan(50);
});

test('the corpus contains every refusal that is decided before forwarding', () => {
  const seen = new Set(
    goldenCases.flatMap(({ decision }) => (decision.kind === 'refused' ? [decision.type] : [])),
  );
  // These refusals depend on bodies or internal faults, which are not among the facts of a case.
  const elsewhere: readonly RefusalType[] = ['PayloadTooLargeError', 'InternalError'];
  expect(
    Object.keys(refusalKinds)
      .filter((type) => !seen.has(type as RefusalType))
      .sort(),
  ).toEqual([...elsewhere].sort());
});

test('the corpus covers both kinds of host, every capacity, and several positions', () => {
  const capacities = new Set(
    goldenCases.flatMap(({ decision }) => (decision.kind === 'placed' ? [decision.draw] : [])),
  );
  expect([...capacities].sort()).toEqual(['own', 'pool', 'stack']);
  expect(new Set(goldenCases.map(({ atSeq }) => atSeq)).size).toBeGreaterThanOrEqual(12);
  expect(new Set(goldenCases.map(({ name }) => name)).size).toBe(goldenCases.length);
  expect(goldenCases.length).toBeGreaterThanOrEqual(180);
});

test.each(['Unauthorized', 'TargetNotServingError'] as const)(
  'Errors 6, Authentication 8: %s has the same words whatever the cause',
  (type) => {
    const cases = goldenCases.filter(({ decision }) => decision.kind === 'refused' && decision.type === type);
    expect(cases.length).toBeGreaterThanOrEqual(10);
    expect(answersByType(corpus, replayDecision).get(type)?.size).toBe(1);
  },
);

test('a changed decision is noticed, with its difference', () => {
  const golden = goldenCases.find(
    ({ name }) => name === 'the plan does not include the pooled model',
  ) as GoldenCase;
  const other = { ...golden, decision: { ...golden.decision, reason: 'another' } } as GoldenCase;
  expect(failingCases(corpus, replayDecision, [golden])).toEqual([]);
  expect(failingCases(corpus, replayDecision, [other])).toEqual([
    expect.stringContaining('"reason":"another"'),
  ]);
});
