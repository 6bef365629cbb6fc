/** Tests that the age of a freshness proof is measured by whichever clock shows more, and which states follow from it. */
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Freshness, type FreshnessState } from './freshness.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'], now: Date.UTC(2026, 0, 1) });
});
afterEach(() => {
  vi.useRealTimers();
});

test('without a proof the age is infinite, and nothing is fresh', () => {
  const freshness = new Freshness();
  expect(freshness.proven).toBe(false);
  expect(freshness.ageSeconds()).toBe(Number.POSITIVE_INFINITY);
  expect(freshness.state()).toBe('unproven');
});

test.each<[number, FreshnessState]>([
  [0, 'ready'],
  [15, 'ready'],
  [15.1, 'lagging'],
  [30, 'lagging'],
  [30.1, 'draining'],
  [45, 'draining'],
  [45.1, 'fenced'],
  [1e6, 'fenced'],
])('%d s after its last proof a snapshot is %s', (seconds, state) => {
  const freshness = new Freshness();
  freshness.prove(freshness.now());
  vi.advanceTimersByTime(seconds * 1000);
  expect(freshness.ageSeconds()).toBeCloseTo(seconds);
  expect(freshness.state()).toBe(state);
});

test('an advance of the wall clock counts even if the monotonic clock stood still', () => {
  const freshness = new Freshness();
  freshness.prove(freshness.now());
  vi.setSystemTime(Date.now() + 60_000);
  expect(freshness.state()).toBe('fenced');
});

test('setting the wall clock back does not make a snapshot younger', () => {
  const freshness = new Freshness();
  freshness.prove(freshness.now());
  vi.advanceTimersByTime(20_000);
  vi.setSystemTime(Date.now() - 3_600_000);
  expect(freshness.ageSeconds()).toBeCloseTo(20);
});

test('an earlier proof does not undo a later one', () => {
  const freshness = new Freshness();
  const early = freshness.now();
  vi.advanceTimersByTime(20_000);
  const late = freshness.now();
  freshness.prove(late);
  freshness.prove(early);
  expect(freshness.ageSeconds()).toBe(0);
});

type Step =
  | { readonly kind: 'proof'; readonly delayMs: number }
  | { readonly kind: 'time'; readonly ms: number }
  | { readonly kind: 'suspend'; readonly ms: number }
  | { readonly kind: 'set-back'; readonly ms: number };

const milliseconds = fc.integer({ min: 0, max: 60_000 });
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('proof' as const), delayMs: milliseconds }),
  fc.record({ kind: fc.constant('time' as const), ms: milliseconds }),
  fc.record({ kind: fc.constant('suspend' as const), ms: milliseconds }),
  fc.record({ kind: fc.constant('set-back' as const), ms: milliseconds }),
);
const order: readonly FreshnessState[] = ['ready', 'lagging', 'draining', 'fenced'];

test('in every sequence of proofs, time and set clocks, only a proof or a set clock makes a snapshot fresher', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 40 }), (steps) => {
      let clock = { monotonicMs: 1_000_000, wallMs: 5_000_000 };
      const freshness = new Freshness(() => clock);
      /** Time of the latest proof on the monotonic clock, in ms. The proof's age must be at least the time since then. */
      let provenMs: number | undefined;
      for (const step of steps) {
        const before = freshness.state();
        if (step.kind === 'proof') {
          const moment = freshness.now();
          clock = { monotonicMs: clock.monotonicMs + step.delayMs, wallMs: clock.wallMs + step.delayMs };
          freshness.prove(moment);
          provenMs = Math.max(provenMs ?? 0, moment.monotonicMs);
        } else if (step.kind === 'time')
          clock = { monotonicMs: clock.monotonicMs + step.ms, wallMs: clock.wallMs + step.ms };
        else if (step.kind === 'suspend') clock = { ...clock, wallMs: clock.wallMs + step.ms };
        else clock = { ...clock, wallMs: clock.wallMs - step.ms };
        const state = freshness.state();
        expect(state === 'unproven').toBe(provenMs === undefined);
        if (provenMs === undefined) continue;
        expect(freshness.ageSeconds()).toBeGreaterThanOrEqual((clock.monotonicMs - provenMs) / 1000);
        if (step.kind === 'time' || step.kind === 'suspend')
          expect(order.indexOf(state)).toBeGreaterThanOrEqual(order.indexOf(before));
        if (clock.monotonicMs - provenMs > 45_000) expect(state).toBe('fenced');
      }
    }),
  );
});

test('only an age shown by the wall clock alone may come from a changed clock', () => {
  const freshness = new Freshness();
  expect(freshness.isFencedByWallClock).toBe(false);
  freshness.prove(freshness.now());
  vi.setSystemTime(Date.now() + 45_000);
  expect(freshness.isFencedByWallClock).toBe(false);
  vi.setSystemTime(Date.now() + 1_000);
  expect(freshness.isFencedByWallClock).toBe(true);
  freshness.prove(freshness.now());
  vi.advanceTimersByTime(46_000);
  expect([freshness.state(), freshness.isFencedByWallClock]).toEqual(['fenced', false]);
});
