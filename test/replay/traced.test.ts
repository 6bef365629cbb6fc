/**
 * Tests decisions with a trace, which explains every step. Each verdict must equal that of live serving, including every byte
 * of its message, and every step that could be decided must be present.
 */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { fixedCounters } from '../../control-plane/explain/recorded-counters.ts';
import { type AdmissionFacts, admission } from '../../shared/decision/admission.ts';
import { type Cause, causeNames, causes, findCause } from '../../shared/decision/causes.ts';
import { cannotTakeNow } from '../../shared/decision/refusal.ts';
import { Trace } from '../../shared/decision/trace.ts';
import { runs, scaledMs } from '../support/budget.ts';
import { corpusHosts, factsOf, goldenCases, openCorpus } from './decisions/corpus.ts';
import { type ReplayFacts, replayed } from './decisions/replay.ts';

const corpus = openCorpus();
afterAll(() => corpus.close());

function decided(at: Parameters<typeof corpus.at>[0], facts: ReplayFacts, trace?: Trace) {
  const { fenced = false, outboxFull = false, nowMs } = facts;
  const of = { lookup: corpus.at(at), hosts: corpusHosts };
  return replayed(admission(of, facts, fixedCounters(facts.counters), { fenced, outboxFull, nowMs }, trace));
}

const whole = goldenCases.map(factsOf);
const positions = [...new Set(goldenCases.map(({ atSeq }) => atSeq))];
const oneOf = <Name extends keyof ReplayFacts>(name: Name) =>
  fc.constantFrom(...whole.map((facts) => facts[name]));
const keyIds = fc.constantFrom('key-cedar', 'key-acme', 'key-acme-revoked', 'key-none');
const recorded = fc.oneof(
  fc.record({ keyId: keyIds, header: fc.constantFrom('authorization' as const, 'x-api-key' as const) }),
  fc.record({
    fault: fc.constantFrom(
      'missing' as const,
      'malformed' as const,
      'unknown' as const,
      'two different keys' as const,
    ),
    carried: fc.boolean(),
  }),
);
const facts = fc.record({
  host: oneOf('host'),
  visitor: fc.option(fc.constant('v-1'), { nil: undefined, freq: 10 }),
  authorization: oneOf('authorization'),
  xApiKey: oneOf('xApiKey'),
  recorded: fc.option(recorded, { nil: undefined, freq: 4 }),
  method: fc.constantFrom('POST', 'POST', 'POST', 'GET'),
  path: oneOf('path'),
  model: oneOf('model'),
  promptTokensMax: fc.nat(200_000),
  promptTokensLeast: fc.option(fc.nat(100), { nil: undefined }),
  maxTokens: fc.option(fc.nat(5000), { nil: undefined }),
  counters: oneOf('counters'),
  nowMs: oneOf('nowMs'),
  fenced: fc.boolean(),
  outboxFull: fc.boolean(),
}) as fc.Arbitrary<ReplayFacts & AdmissionFacts>;

test(
  'explain and serving decide any facts alike',
  () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(fc.constantFrom(...positions), facts, (seq, each) => {
        const trace = new Trace();
        const explained = decided(seq, each, trace);
        expect(explained).toEqual(decided(seq, each));
        const kind = explained.kind === 'refused' ? explained.type : explained.kind;
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
        expect(trace.steps.length).toBeGreaterThan(0);
      }),
      { numRuns: runs({ fast: 3000, full: 10_000 }) },
    );
    expect([...seen.keys()].length).toBeGreaterThanOrEqual(8);
  },
  scaledMs(300_000),
);

test.each(goldenCases.map((each) => [each.name, each] as const))(
  'the steps of "%s" give the recorded decision',
  (_name, each) => {
    const trace = new Trace();
    const of = factsOf(each);
    expect(decided(each, of, trace)).toEqual(decided(each, of));
  },
);

/** These causes need visitors or node health, which the golden log does not have. */
const elsewhere: readonly Cause[] = [
  ...(['network turns', 'visitor tokens', 'visitor requests', 'visitor concurrency'] as const),
];

test('a recorded refusal is read as its cause, and the golden refusals cover all causes', () => {
  const seen = new Set<Cause>(elsewhere);
  for (const golden of goldenCases) {
    const trace = new Trace();
    decided(golden, factsOf(golden), trace);
    if (golden.decision.kind !== 'refused') continue;
    const { type, reason } = golden.decision;
    const cause = findCause({ stage: 'admission', type, reason });
    expect(trace.refusal?.cause, golden.name).toBe(cause);
    if (cause !== undefined) seen.add(cause);
  }
  expect([...seen].sort()).toEqual(causeNames.filter((name) => causes[name].stage === 'admission').sort());
});

const served = whole[goldenCases.findIndex(({ name }) => name === 'the shared host by name')];

test('a refusal for missing freshness or usage does not end the trace', () => {
  const trace = new Trace();
  const counters = { windowUsed: 1e9, inFlight: 1e9, poolTokens: 1e15, freeTurns: 1e9 };
  if (served === undefined) throw new Error('it must be recorded');
  decided(10, { ...served, counters, fenced: true, outboxFull: true }, trace);
  const refused = trace.steps.filter(({ refusal }) => refusal !== undefined);
  expect(refused.map(({ step }) => step)).toEqual([
    ...['fresh', 'usage', 'allowance', 'requests', 'concurrency'],
  ]);
});

test('even without a tier, the route is explained', () => {
  const golden = goldenCases.filter(
    ({ decision }) => 'reason' in decision && decision.reason === 'no entitlement',
  );
  expect(golden.length).toBeGreaterThan(0);
  for (const each of golden) {
    const trace = new Trace();
    decided(each, factsOf(each), trace);
    const at = trace.steps.findIndex(({ step }) => step === 'plan');
    expect(trace.steps.slice(at + 1).length, each.name).toBeGreaterThan(0);
  }
});

test('a step’s first note holds', () => {
  const trace = new Trace();
  const first = cannotTakeNow('fenced');
  trace.refuse(first);
  trace.refuse(cannotTakeNow('fenced'));
  trace.add('fresh', 'ok');
  expect(trace.steps).toMatchObject([{ step: 'fresh', result: 'refused', refusal: first }]);
});

test('a program fault is thrown, and is not treated as a refusal', () => {
  const fault = new Error('a fault');
  const throwing = (): never => {
    throw fault;
  };
  const counters = {
    ...{ window: throwing, inFlight: throwing, poolTokens: throwing, freeTurns: throwing },
    ...{ networkTurns: throwing, visitorTokens: throwing },
  };
  if (served === undefined) throw new Error('it must be recorded');
  const conditions = { fenced: false, outboxFull: false, nowMs: served.nowMs };
  const of = { lookup: corpus.at(10), hosts: corpusHosts };
  for (const trace of [undefined, new Trace()])
    expect(() => admission(of, served, counters, conditions, trace)).toThrow(fault);
  expect(() => new Trace().attempt('context', throwing, {}, [])).toThrow(fault);
});

test('the steps after a refusal are decided too, because there is often a second cause', () => {
  const golden = goldenCases.find(({ name }) => name === 'the plan does not include the pooled model');
  if (golden === undefined) throw new Error('it must be recorded');
  const trace = new Trace();
  const of = { ...factsOf(golden), promptTokensMax: 10_000_000 };
  expect(decided(golden, of, trace)).toMatchObject({ type: 'ContextWindowExceededError' });
  const refused = trace.steps.filter(({ refusal }) => refusal !== undefined);
  expect(refused.map(({ step }) => step)).toEqual(['context', 'tier']);
});
