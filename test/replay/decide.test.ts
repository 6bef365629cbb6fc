/**
 * Golden decisions: recorded requests, re-decided at their positions of a recorded log, give the same decisions in every
 * build. The corpus is only ever added to: a line that no longer holds is a change of what the service promises.
 */
import { afterAll, expect, test } from 'vitest';
import { replayDecision } from '../../data-plane/request/replay-decision.ts';
import { type RefusalType, refusalKinds } from '../../schemas/refusals.ts';
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

const corpus = openCorpus();
afterAll(() => corpus.close());

test.each(goldenCases.map((each) => [each.name, each.clause, each] as const))(
  'at its position, "%s" (%s) is decided as it always was',
  (_name, _clause, each) => {
    const decision = replayDecision(corpus.at(each.atSeq), factsOf(each), corpusHosts);
    expect(differences(each.decision, decision)).toEqual([]);
  },
);

test('one snapshot that follows the log decides as snapshots of each position do', () => {
  const snapshot = memorySnapshot();
  const lookup = createLookup(snapshot.db);
  for (const record of recordsOfCorpus()) {
    snapshot.apply([record]);
    const now = goldenCases.filter(({ atSeq }) => atSeq === lookup.position());
    expect(failingCases({ at: () => lookup, close: () => undefined }, replayDecision, now)).toEqual([]);
  }
  expect(snapshot.skipped).toBe(0);
  snapshot.db.close();
});

test('the golden log is folded whole: no event of it is malformed, unknown or passed over by chance', () => {
  const records = recordsOfCorpus();
  const snapshot = memorySnapshot();
  expect(snapshot.apply(records).consumed).toBe(records.length);
  expect(snapshot.head.seq).toBe(records.length);
  snapshot.db.close();
});

test('the same facts give other decisions at other positions', () => {
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

test('every refusal that is decided before forwarding stands in the corpus', () => {
  const seen = new Set(
    goldenCases.flatMap(({ decision }) => (decision.kind === 'refused' ? [decision.type] : [])),
  );
  // Of bodies and of faults of ours, which no facts tell.
  const elsewhere: readonly RefusalType[] = ['PayloadTooLargeError', 'InternalError'];
  expect(
    Object.keys(refusalKinds)
      .filter((type) => !seen.has(type as RefusalType))
      .sort(),
  ).toEqual([...elsewhere].sort());
});

test('the corpus covers both kinds of host, every draw, and several positions', () => {
  const draws = new Set(
    goldenCases.flatMap(({ decision }) => (decision.kind === 'placed' ? [decision.draw] : [])),
  );
  expect([...draws].sort()).toEqual(['own', 'pool', 'stack']);
  expect(new Set(goldenCases.map(({ atSeq }) => atSeq)).size).toBeGreaterThanOrEqual(12);
  expect(new Set(goldenCases.map(({ name }) => name)).size).toBe(goldenCases.length);
  expect(goldenCases.length).toBeGreaterThanOrEqual(180);
});

test.each(['Unauthorized', 'TargetNotServingError'] as const)(
  'Errors 6, Authentication 8: whatever caused it, %s has the same words',
  (type) => {
    const cases = goldenCases.filter(({ decision }) => decision.kind === 'refused' && decision.type === type);
    expect(cases.length).toBeGreaterThanOrEqual(10);
    expect(answersByType(corpus, replayDecision).get(type)?.size).toBe(1);
  },
);

test('a decision that changed is seen, and how', () => {
  const golden = goldenCases.find(
    ({ name }) => name === 'the plan does not include the pooled model',
  ) as GoldenCase;
  const other = { ...golden, decision: { ...golden.decision, reason: 'another' } } as GoldenCase;
  expect(failingCases(corpus, replayDecision, [golden])).toEqual([]);
  expect(failingCases(corpus, replayDecision, [other])).toEqual([
    expect.stringContaining('"reason":"another"'),
  ]);
});
