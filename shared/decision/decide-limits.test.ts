import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LocalCounters } from '../../data-plane/request/counters.ts';
import { seededRandom } from '../../test/support/random.ts';
import type { TierLimits } from '../snapshot/lookup.ts';
import { type Counters, windowMs, windowStartMs } from './decide.ts';
import { checkLimits, type LimitFacts } from './limits.ts';
import { Refusal } from './refusal.ts';

const unlimited: TierLimits = {
  id: 'Starter',
  rank: 0,
  requestsPerMinute: null,
  concurrency: null,
  contextTokens: null,
  monthlyTokens: null,
  freeTurns: null,
};
const plain: LimitFacts = {
  subject: 'acme',
  tier: unlimited,
  contextTokens: 1,
  allowance: { kind: 'none' },
  model: 'echo-small',
  weight: 1,
  nextTier: () => undefined,
};
const noUsage = { poolTokensAt: () => 0, freeTurns: () => 0, networkTurns: () => 0, visitorTokens: () => 0 };

function countersOf(used: number, inFlight: number, endsAtMs: number): Counters {
  return {
    window: () => ({ used, endsAtMs }),
    inFlight: () => inFlight,
    poolTokens: () => 0,
    freeTurns: () => 0,
    networkTurns: () => 0,
    visitorTokens: () => 0,
  };
}

function refusalOf(act: () => void): Refusal | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

const subjects = fc.stringMatching(/^[a-z0-9-]{1,64}$/);
/** Times from 1970 to 2100, in ms since 1970. */
const moments = fc.integer({ min: 0, max: 4_102_444_800_000 });
const limit = fc.option(fc.integer({ min: 0, max: 20 }), { nil: null });

interface Arrival {
  readonly afterMs: number;
  readonly subject: string;
  readonly weight: number;
  /** Indexes of requests in flight that end before this request arrives. With `twice`, each of them is released twice. */
  readonly ended: readonly number[];
  readonly twice: boolean;
}

const arrivals = fc.array(
  fc.record<Arrival>({
    afterMs: fc.oneof(fc.integer({ min: 0, max: 2000 }), fc.integer({ min: 0, max: 100_000 })),
    subject: fc.constantFrom('acme', 'birch', 'visitor:v1'),
    weight: fc.integer({ min: 1, max: 4 }),
    ended: fc.array(fc.nat(), { maxLength: 3 }),
    twice: fc.boolean(),
  }),
  { maxLength: 80 },
);

test('Limits 1, Limits 2: in any order of events, a request is admitted if and only if both limits have room', () => {
  fc.assert(
    fc.property(
      arrivals,
      fc.integer({ min: 0, max: 6 }),
      fc.integer({ min: 0, max: 8 }),
      moments,
      (steps, requestsPerMinute, concurrency, startMs) => {
        const counters = new LocalCounters(noUsage);
        const tier = { ...unlimited, requestsPerMinute, concurrency };
        const admitted = new Map<string, number>();
        let inFlight: { subject: string; weight: number; release(): void }[] = [];
        let nowMs = startMs;
        for (const { afterMs, subject, weight, ended, twice } of steps) {
          nowMs += afterMs;
          for (const index of ended) {
            const lease = inFlight[index % Math.max(1, inFlight.length)];
            lease?.release();
            if (twice) lease?.release();
            inFlight = inFlight.filter((each) => each !== lease);
          }
          const window = `${subject} ${windowStartMs(subject, nowMs)}`;
          const used = admitted.get(window) ?? 0;
          const held = inFlight
            .filter((each) => each.subject === subject)
            .reduce((sum, each) => sum + each.weight, 0);
          const refusal = refusalOf(() => checkLimits({ ...plain, subject, weight, tier }, counters, nowMs));
          const type =
            used >= requestsPerMinute
              ? 'InferenceRateLimitedError'
              : held + weight > concurrency
                ? 'InferenceConcurrencyLimitedError'
                : undefined;
          expect(refusal?.type).toBe(type);
          if (refusal) continue;
          admitted.set(window, used + 1);
          inFlight.push({ subject, weight, ...counters.reserve(subject, weight, nowMs) });
        }
        for (const count of admitted.values()) expect(count).toBeLessThanOrEqual(requestsPerMinute);
        for (const lease of inFlight) lease.release();
        expect(counters.inFlightUnits()).toBe(0);
      },
    ),
    { numRuns: 200 },
  );
});

test('Errors 9: Retry-After is the rest of the window rounded up, 1 to 60, and waiting exactly that long is enough', () => {
  fc.assert(
    fc.property(subjects, moments, (subject, nowMs) => {
      const counters = new LocalCounters(noUsage);
      const tier = { ...unlimited, requestsPerMinute: 1 };
      counters.reserve(subject, 1, nowMs).release();
      const facts = { ...plain, subject, tier };
      const refusal = refusalOf(() => checkLimits(facts, counters, nowMs));
      const seconds = refusal?.retryAfterSeconds as number;
      expect(refusal?.type).toBe('InferenceRateLimitedError');
      expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60).toBe(true);
      expect(seconds).toBe(Math.ceil((counters.window(subject, nowMs).endsAtMs - nowMs) / 1000));
      expect(refusal?.message).toContain(`${seconds} second`);
      expect(refusalOf(() => checkLimits(facts, counters, nowMs + seconds * 1000))).toBeUndefined();
      expect(refusalOf(() => checkLimits(facts, counters, nowMs + (seconds - 1) * 1000))).toBeDefined();
    }),
  );
});

test('Errors 9: Retry-After is 1 to 60, whatever window end a counter reports', () => {
  fc.assert(
    fc.property(moments, moments, (nowMs, endsAtMs) => {
      const facts = { ...plain, tier: { ...unlimited, requestsPerMinute: 0 } };
      const seconds = refusalOf(() =>
        checkLimits(facts, countersOf(0, 0, endsAtMs), nowMs),
      )?.retryAfterSeconds;
      expect(seconds).toBeGreaterThanOrEqual(1);
      expect(seconds).toBeLessThanOrEqual(60);
    }),
  );
});

test('one subject’s windows cover time without gaps or overlaps', () => {
  fc.assert(
    fc.property(subjects, moments, (subject, nowMs) => {
      const start = windowStartMs(subject, nowMs);
      expect(start).toBeLessThanOrEqual(nowMs);
      expect(start + windowMs).toBeGreaterThan(nowMs);
      expect(windowStartMs(subject, start)).toBe(start);
      expect(windowStartMs(subject, start + windowMs - 1)).toBe(start);
      expect(windowStartMs(subject, start + windowMs)).toBe(start + windowMs);
      expect(windowStartMs(subject, start - 1)).toBe(start - windowMs);
    }),
  );
});

test('windows of different organisations end at different times, spread over the minute', () => {
  const random = seededRandom(7);
  const name = () => Array.from({ length: 10 }, () => 'abcdefghijklmnop'[Math.floor(random() * 16)]).join('');
  const phases = Array.from({ length: 1200 }, () => windowStartMs(name(), 10 * windowMs) % windowMs);
  expect(new Set(phases).size).toBeGreaterThan(1100);
  for (let tenth = 0; tenth < 10; tenth++) {
    const share = phases.filter((phase) => Math.floor(phase / (windowMs / 10)) === tenth).length;
    expect(share, `tenth ${tenth} of the minute`).toBeGreaterThan(60);
    expect(share, `tenth ${tenth} of the minute`).toBeLessThan(240);
  }
});

const anyFacts = fc.record<LimitFacts>({
  subject: subjects,
  tier: fc.record<TierLimits>({
    id: fc.constantFrom('Starter', 'Team', 'Platinum'),
    rank: fc.constant(0),
    requestsPerMinute: limit,
    concurrency: limit,
    contextTokens: limit,
    monthlyTokens: limit,
    freeTurns: limit,
  }),
  contextTokens: fc.nat(25),
  allowance: fc.oneof(
    fc.constant({ kind: 'none' as const }),
    fc.record({ kind: fc.constantFrom('tokens' as const, 'turns' as const), used: fc.nat(25) }),
  ),
  model: fc.constant('echo-small'),
  weight: fc.integer({ min: 1, max: 4 }),
  nextTier: fc.constantFrom(
    () => 'Next',
    () => undefined,
  ),
});

test('Errors further rule 1: the first exceeded limit refuses, but never hides one that waiting cannot cure', () => {
  fc.assert(
    fc.property(anyFacts, fc.nat(25), fc.nat(25), (facts, used, inFlight) => {
      const { tier, allowance } = facts;
      const over = (bound: number | null, value: number) => bound !== null && value > bound;
      const bound = allowance.kind === 'turns' ? tier.freeTurns : tier.monthlyTokens;
      const context = over(tier.contextTokens, facts.contextTokens);
      const upsell = allowance.kind !== 'none' && over(bound, allowance.used + 1);
      const type = context
        ? 'ContextWindowExceededError'
        : upsell
          ? 'InferenceUpsellError'
          : over(tier.requestsPerMinute, used + 1)
            ? 'InferenceRateLimitedError'
            : over(tier.concurrency, inFlight + facts.weight)
              ? 'InferenceConcurrencyLimitedError'
              : undefined;
      const refusal = refusalOf(() => checkLimits(facts, countersOf(used, inFlight, 60_000), 0));
      expect(refusal?.type).toBe(type);
      if (refusal) expect(refusal.message).toContain(`${tier.id} tier`);
      // A refusal says when to retry only if waiting can help.
      expect(refusal?.retryAfterSeconds !== undefined).toBe(type?.endsWith('LimitedError') === true);
      if (context || upsell) expect(refusal?.status).not.toBe(429);
    }),
    { numRuns: 1000 },
  );
});
