/** The age of a proof, by whichever clock shows more, and the ladder that follows from it (design: Freshness). */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Freshness, type FreshnessState } from './freshness.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'], now: Date.UTC(2026, 0, 1) });
});
afterEach(() => {
  vi.useRealTimers();
});

test('without a proof the age has no end, and nothing is fresh', () => {
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

test('a wall clock that advanced while the monotonic clock did not counts', () => {
  const freshness = new Freshness();
  freshness.prove(freshness.now());
  vi.setSystemTime(Date.now() + 60_000);
  expect(freshness.state()).toBe('fenced');
});

test('a wall clock that was set back does not make a snapshot younger', () => {
  const freshness = new Freshness();
  freshness.prove(freshness.now());
  vi.advanceTimersByTime(20_000);
  vi.setSystemTime(Date.now() - 3_600_000);
  expect(freshness.ageSeconds()).toBeCloseTo(20);
});

test('a proof of an earlier moment does not undo that of a later one', () => {
  const freshness = new Freshness();
  const early = freshness.now();
  vi.advanceTimersByTime(20_000);
  const late = freshness.now();
  freshness.prove(late);
  freshness.prove(early);
  expect(freshness.ageSeconds()).toBe(0);
});
