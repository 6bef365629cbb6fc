import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PlaceKey } from '../../schemas/names.ts';
import { runs } from '../../test/support/budget.ts';
import type { Lookup, Route, TierLimits } from '../snapshot/lookup.ts';
import type { Caller } from './authenticate.ts';
import type { Counters } from './decide.ts';
import { contextNeeded, type Decision, decide, type RequestFacts } from './decide.ts';
import { Refusal } from './refusal.ts';

/** Results that a look-up returns. They may contradict each other, so they cover more states than the fold can produce. */
interface Content {
  readonly anonymous: TierLimits | undefined;
  readonly stacks: Readonly<Record<string, { organisation: string; surface: 'openai' | 'anthropic' }>>;
  readonly routes: Readonly<Record<string, readonly string[]>>;
  readonly pooled: readonly string[];
  readonly included: readonly string[];
  readonly weight: number;
  /** Organisations' own nodes that are down, as `place model`. */
  readonly away: readonly string[];
  readonly nextTier: string | undefined;
}

const models = ['echo-small', 'echo-large', 'no-such-model'];
const organisations = ['acme', 'birch'];
const stackIds = ['stk-amber-otter-1', 'stk-quiet-heron-2', 'stk-never-made-3'];
const places = [
  'pool',
  ...organisations.map((id) => `organisation:${id}`),
  ...stackIds.map((id) => `stack:${id}`),
];
const tierIds = ['Starter', 'Platinum', 'anonymous'];

function routeTo(node: string): Route {
  return {
    node,
    served: 'm',
    url: 'http://127.0.0.1:1',
    dialect: 'vllm',
    credential: null,
    windowTokens: null,
    takesImages: false,
    reranks: false,
  };
}

function lookupOf(content: Content): Lookup {
  return {
    keyOwner: () => undefined,
    keyOwnerById: () => undefined,
    organisationOwner: () => undefined,
    anonymousTier: () => content.anonymous,
    visitorTotals: () => undefined,
    listStacks: () => [],
    stack: (id) => (Object.hasOwn(content.stacks, id) ? content.stacks[id] : undefined),
    routes: (place, model) => (content.routes[`${place} ${model}`] ?? []).map(routeTo),
    loadedLast: (place, model) => content.away.includes(`${place} ${model}`),
    isPooled: (model) => content.pooled.includes(model),
    tierIncludes: (tier, model) => content.included.includes(`${tier} ${model}`),
    isCatalogued: () => true,
    hasAffinity: () => true,
    weight: () => content.weight,
    nextTier: () => content.nextTier,
    listing: () => [],
    usageAdjustment: () => 0,
    position: () => 1,
    overlaid: () => undefined,
  };
}

// Most of the drawn limits are unlimited, so that many requests reach routing.
const anyLimit = fc.oneof(
  { weight: 6, arbitrary: fc.constant(null) },
  { weight: 1, arbitrary: fc.nat(10) },
  { weight: 1, arbitrary: fc.constant(1e15) },
);
const anyTier = fc.record<TierLimits>({
  id: fc.constantFrom(...tierIds),
  rank: fc.option(fc.nat(5), { nil: null }),
  requestsPerMinute: anyLimit,
  concurrency: anyLimit,
  contextTokens: anyLimit,
  monthlyTokens: anyLimit,
  // Visitors send a fifth of the requests. Most have a limit on turns, so every run refuses some for used-up turns.
  freeTurns: fc.option(fc.nat(8), { nil: null, freq: 4 }),
});
const pairs = (firsts: readonly string[]) =>
  firsts.flatMap((first) => models.map((model) => `${first} ${model}`));
const anyContent = fc.record<Content>({
  anonymous: fc.option(anyTier, { nil: undefined }),
  stacks: fc.dictionary(
    fc.constantFrom(...stackIds.slice(0, 2)),
    fc.record({
      organisation: fc.constantFrom(...organisations, 'gone'),
      surface: fc.constantFrom('openai' as const, 'anthropic' as const),
    }),
  ),
  // Each place has nodes of its own, so a node's name shows to which place the node belongs.
  routes: fc
    .subarray(pairs(places))
    .map((keys) => Object.fromEntries(keys.map((key) => [key, [`${key} 1`, `${key} 2`]]))),
  pooled: fc.subarray(models),
  away: fc.subarray(pairs(places)),
  included: fc.subarray(pairs(tierIds)),
  weight: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 1, max: 8 }) },
    { weight: 1, arbitrary: fc.constantFrom(0, -1, 1e9) },
  ),
  nextTier: fc.option(fc.constant('Next'), { nil: undefined }),
});

const anyKey = fc.record({
  kind: fc.constant('key' as const),
  owner: fc.record({
    keyId: fc.constant('key-1'),
    organisation: fc.constantFrom(...organisations),
    revoked: fc.boolean(),
    expiresAtMs: fc.constant(null),
    suspended: fc.boolean(),
    anchor: fc.constant('2026-11-01'),
    tier: fc.option(anyTier, { nil: null, freq: 8 }),
  }),
});
const visitor = fc.constant<Caller & { kind: 'anonymous' }>({ kind: 'anonymous', visitor: 'v1' });
const stackTarget = fc.record({ kind: fc.constant('stack' as const), stack: fc.constantFrom(...stackIds) });
const anyFacts = fc.record<RequestFacts>({
  target: fc.oneof(fc.constant({ kind: 'shared' as const }), stackTarget),
  caller: fc.oneof({ weight: 4, arbitrary: anyKey }, { weight: 1, arbitrary: visitor }),
  model: fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...models) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  ),
  surface: fc.constantFrom('openai', 'anthropic', 'any'),
  reranks: fc.constant(false),
  promptTokensMax: fc.oneof({ weight: 4, arbitrary: fc.nat(12) }, { weight: 1, arbitrary: fc.nat() }),
  maxTokens: fc.option(fc.nat(12), { nil: undefined }),
  promptTokensLeast: fc.option(
    fc.nat(12).map((least) => () => least),
    { nil: undefined },
  ),
});
const anyCounters = fc
  .record({
    used: fc.nat(12),
    inFlight: fc.nat(12),
    tokens: fc.nat(12),
    turns: fc.nat(12),
    left: fc.nat(60_000),
  })
  .map(
    ({ used, inFlight, tokens, turns, left }): Counters => ({
      window: (_, nowMs) => ({ used, endsAtMs: nowMs + left }),
      inFlight: () => inFlight,
      poolTokens: () => tokens,
      freeTurns: () => turns,
      networkTurns: () => 0,
      visitorTokens: () => 0,
    }),
  );
const moment = fc.integer({ min: 0, max: 4e12 });

type Outcome = Decision | Refusal;

/** Returns the outcome of a request. Any error other than a refusal fails the property that calls this function. */
function outcomeOf(lookup: Lookup, counters: Counters, facts: RequestFacts, nowMs: number): Outcome {
  try {
    return decide(lookup, counters, facts, nowMs);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

/** Returns everything in an outcome except the reason, which only the log shows and no client or counter can observe. */
function observable(outcome: Outcome): unknown {
  if (outcome instanceof Refusal) return [outcome.envelope('/'), outcome.retryAfterSeconds];
  const { placement, ...counted } = outcome;
  return [counted, placement instanceof Refusal ? observable(placement) : placement];
}

function placementOf(outcome: Outcome) {
  if (outcome instanceof Refusal || outcome.placement instanceof Refusal) return undefined;
  return outcome.placement;
}

/**
 * Runs a property up to ten times, until its cases have reached `enough` different outcomes. Rare outcomes may need several
 * runs.
 */
function assertReaching<Case>(
  property: fc.IProperty<Case>,
  numRuns: number,
  seen: ReadonlySet<string>,
  enough: number,
): void {
  for (let round = 0; round === 0 || (round < 10 && seen.size < enough); round++) {
    fc.assert(property, { numRuns });
  }
}

test('any look-up, counters and facts give a decision or a Refusal, and the same one twice', () => {
  const seen = new Set<string>();
  assertReaching(
    fc.property(anyContent, anyCounters, anyFacts, moment, (content, counters, facts, nowMs) => {
      const outcome = outcomeOf(lookupOf(content), counters, facts, nowMs);
      expect(observable(outcomeOf(lookupOf(content), counters, facts, nowMs))).toEqual(observable(outcome));
      const refusal = outcome instanceof Refusal ? outcome : outcome.placement;
      seen.add(refusal instanceof Refusal ? refusal.type : refusal.capacity);
    }),
    3000,
    seen,
    13,
  );
  expect([...seen].sort()).toEqual([
    ...['ContextWindowExceededError', 'DedicatedOnlyModelError', 'InferenceConcurrencyLimitedError'],
    ...['InferenceRateLimitedError', 'InferenceUnavailableError', 'InferenceUpsellError'],
    ...[
      'ModelNotInPlanError',
      'NotFoundError',
      'TargetNotServingError',
      'UnsupportedShapeError',
      'own',
      'pool',
      'stack',
    ],
  ]);
});

test('Routing rule 1, Routing rule 3, Routing rule 5: a request is placed at the one place that host and caller allow', () => {
  const capacities = new Set<string>();
  assertReaching(
    fc.property(anyContent, anyCounters, anyFacts, moment, (content, counters, facts, nowMs) => {
      const lookup = lookupOf(content);
      const placement = placementOf(outcomeOf(lookup, counters, facts, nowMs));
      if (!placement) return;
      const { target, caller, model } = facts;
      capacities.add(`${caller.kind} ${placement.capacity}`);
      if (caller.kind === 'anonymous') expect(placement.capacity).toBe('pool');
      if (target.kind === 'stack') expect(placement.capacity).toBe('stack');
      else expect(placement.capacity).not.toBe('stack');
      const organisation = caller.kind === 'key' ? caller.owner.organisation : '';
      const place: Record<'pool' | 'own' | 'stack', PlaceKey> = {
        pool: 'pool',
        own: `organisation:${organisation}`,
        stack: `stack:${target.kind === 'stack' ? target.stack : ''}`,
      };
      expect(placement.candidates).toEqual(lookup.routes(place[placement.capacity], model));
      expect(placement.candidates.length).toBeGreaterThan(0);
      if (target.kind === 'stack') expect(lookup.stack(target.stack)?.organisation).toBe(organisation);
      if (placement.capacity === 'pool') {
        expect(lookup.isPooled(model)).toBe(true);
        expect(lookup.routes(`organisation:${organisation}`, model)).toEqual([]);
      }
    }),
    runs({ fast: 2500, full: 5000 }),
    capacities,
    4,
  );
  expect([...capacities].sort()).toEqual(['anonymous pool', 'key own', 'key pool', 'key stack']);
});

test('Errors 6, Routing rule 4: an own unavailable, a foreign and a missing stack give the same answer and counts', () => {
  const stack = 'stk-amber-otter-1';
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      anyContent,
      anyCounters,
      anyKey,
      anyFacts,
      moment,
      (content, counters, caller, some, nowMs) => {
        const surface = some.surface === 'any' ? 'openai' : some.surface;
        const facts: RequestFacts = { ...some, caller, surface, target: { kind: 'stack', stack } };
        const { organisation } = caller.owner;
        const nobody = { ...content.routes, [`stack:${stack} ${facts.model}`]: [] };
        const own = { ...content, routes: nobody, stacks: { [stack]: { organisation, surface } } };
        const foreign = {
          ...content,
          stacks: {
            [stack]: { organisation: 'else', surface: some.surface === 'any' ? 'anthropic' : surface },
          },
        } as Content;
        const missing = { ...content, stacks: {} };
        const [first, ...others] = [own, foreign, missing].map((each) =>
          outcomeOf(lookupOf(each), counters, facts, nowMs),
        );
        for (const other of others) expect(observable(other)).toEqual(observable(first as Outcome));
        const refusal = first instanceof Refusal ? first : (first?.placement as Refusal);
        seen.add(refusal.type);
      },
    ),
    { numRuns: 1000 },
  );
  expect(seen).toContain('TargetNotServingError');
  expect(seen).toContain('InferenceRateLimitedError');
  // Requests to stacks never use the allowance.
  expect(seen).not.toContain('InferenceUpsellError');
});

test('Errors 7: only requests for the pool use up the allowance', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(anyContent, anyCounters, anyKey, anyFacts, (content, counters, caller, facts) => {
      const tier = {
        ...(caller.owner.tier as TierLimits),
        id: 'Starter',
        contextTokens: null,
        requestsPerMinute: null,
        concurrency: null,
      };
      const lookup = lookupOf(content);
      const ask = (monthlyTokens: number | null) => {
        const owner = { ...caller.owner, suspended: false, tier: { ...tier, monthlyTokens } };
        return outcomeOf(lookup, counters, { ...facts, caller: { kind: 'key', owner } }, 0);
      };
      const free = ask(null) as Decision;
      const { placement } = free;
      // Using up the allowance may change the outcome only for requests to the pool.
      const draws =
        placement instanceof Refusal
          ? placement.type === 'InferenceUnavailableError' && lookup.isPooled(facts.model)
          : placement.capacity === 'pool';
      const used = ask(0);
      expect(used instanceof Refusal && used.type === 'InferenceUpsellError').toBe(draws);
      const counted = counters.poolTokens(caller.owner.organisation, caller.owner.anchor, 0);
      expect(ask(counted) instanceof Refusal).toBe(draws);
      expect(ask(counted + 1)).not.toBeInstanceOf(Refusal);
      if (!draws) expect((used as Decision).placement instanceof Refusal).toBe(placement instanceof Refusal);
      seen.add(String(draws));
    }),
    { numRuns: 1000 },
  );
  expect(seen.size).toBe(2);
});

test('Errors 5, Errors 10: no refusal depends on the weight of a model that the pool does not have', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      anyContent,
      anyCounters,
      anyKey,
      anyFacts,
      moment,
      (content, counters, caller, some, nowMs) => {
        const facts = { ...some, caller };
        const pooled = content.pooled.filter((model) => model !== facts.model);
        const [light, heavy] = [1, 8].map((weight) =>
          outcomeOf(lookupOf({ ...content, pooled, weight }), counters, facts, nowMs),
        ) as [Outcome, Outcome];
        if (placementOf(light)) return;
        // A stack or node of the caller's organisation may serve the model, and then the model's real weight counts.
        const own: PlaceKey[] = [
          `organisation:${caller.owner.organisation}`,
          ...stackIds.map((id): PlaceKey => `stack:${id}`),
        ];
        if (own.some((place) => lookupOf(content).routes(place, facts.model).length > 0)) return;
        expect(observable(heavy)).toEqual(observable(light));
        seen.add(light instanceof Refusal ? light.type : (light.placement as Refusal).type);
      },
    ),
    { numRuns: 3000 },
  );
  expect(seen).toContain('DedicatedOnlyModelError');
  expect(seen).toContain('TargetNotServingError');
  expect(seen).toContain('InferenceConcurrencyLimitedError');
});

test('Limits 3: a prompt is judged uncounted if its lower bound does not fit, or if its upper bound does', () => {
  fc.assert(
    fc.property(anyContent, anyCounters, anyFacts, fc.nat(12), (content, counters, facts, slack) => {
      const least = facts.promptTokensMax;
      const [exact, bounded] = [
        { promptTokensMax: least },
        { promptTokensMax: least + slack, promptTokensLeast: () => least },
      ].map((prompt) =>
        outcomeOf(lookupOf(content), counters, { ...facts, promptTokensLeast: undefined, ...prompt }, 0),
      ) as [Outcome, Outcome];
      if (exact instanceof Refusal || bounded instanceof Refusal) {
        expect(bounded).toMatchObject({ type: (exact as Refusal).type });
        return;
      }
      expect(exact.uncounted).toBe(false);
      const most = contextNeeded({ ...facts, promptTokensMax: least + slack });
      expect(bounded.uncounted).toBe(
        bounded.tier.contextTokens !== null && most > bounded.tier.contextTokens,
      );
    }),
    { numRuns: 2000 },
  );
});

test('the costly lower bound of a prompt is computed only if the upper bound does not fit', () => {
  const seen = new Set<boolean>();
  fc.assert(
    fc.property(anyContent, anyCounters, anyFacts, (content, counters, facts) => {
      let calls = 0;
      const promptTokensLeast = (): number => {
        calls++;
        return 0;
      };
      const outcome = outcomeOf(lookupOf(content), counters, { ...facts, promptTokensLeast }, 0);
      if (outcome instanceof Refusal) return;
      expect(calls).toBe(outcome.uncounted ? 1 : 0);
      seen.add(outcome.uncounted);
    }),
    { numRuns: 1000 },
  );
  expect(seen.size).toBe(2);
});

test.each([
  [10, 5, 15],
  [10, 0, 10],
  [10, undefined, 11],
])('Limits 3: a prompt of %s tokens that requests %s needs %s', (promptTokensMax, maxTokens, needed) => {
  expect(contextNeeded({ promptTokensMax, maxTokens })).toBe(needed);
});
