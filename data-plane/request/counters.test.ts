import fc from 'fast-check';
import { expect, test } from 'vitest';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import { LocalCounters } from './counters.ts';

const noUsage = { poolTokensAt: () => 0, freeTurns: () => 0, networkTurns: () => 0, visitorTokens: () => 0 };
const startMs = windowStartMs('acme', Date.UTC(2026, 10, 21));

test('Limits 2: a reservation is returned once, however often and in whatever order leases are released', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 1000 }), { maxLength: 30 }),
      fc.array(fc.nat(), { maxLength: 90 }),
      (weights, order) => {
        const counters = new LocalCounters(noUsage);
        const leases = weights.map((weight) => counters.reserve('acme', weight, startMs));
        const held = new Set(weights.keys());
        for (const each of order.map((index) => index % Math.max(1, weights.length))) {
          leases[each]?.release();
          held.delete(each);
          const sum = [...held].reduce((total, index) => total + (weights[index] ?? 0), 0);
          expect(counters.inFlight('acme')).toBe(sum);
          expect(counters.inFlightUnits()).toBe(sum);
        }
      },
    ),
  );
});

test('Limits 1: a window counts all its reservations, released or not, and the next one starts at zero', () => {
  const counters = new LocalCounters(noUsage);
  counters.reserve('acme', 4, startMs).release();
  counters.reserve('acme', 1, startMs + windowMs - 1);
  expect(counters.window('acme', startMs + windowMs - 1)).toEqual({ used: 2, endsAtMs: startMs + windowMs });
  expect(counters.window('acme', startMs + windowMs)).toEqual({ used: 0, endsAtMs: startMs + 2 * windowMs });
  counters.reserve('acme', 1, startMs + windowMs);
  expect(counters.window('acme', startMs + windowMs).used).toBe(1);
});

test('reading a counter does not count', () => {
  const counters = new LocalCounters(noUsage);
  for (let i = 0; i < 3; i++) {
    expect(counters.window('acme', startMs).used).toBe(0);
    expect(counters.inFlight('acme')).toBe(0);
  }
});

test('subjects are counted separately, even an organisation and a visitor with the same name', () => {
  const counters = new LocalCounters(noUsage);
  counters.reserve('acme', 3, startMs);
  counters.reserve('visitor:acme', 2, startMs);
  expect([counters.inFlight('acme'), counters.inFlight('visitor:acme'), counters.inFlight('birch')]).toEqual([
    3, 2, 0,
  ]);
  expect(counters.window('birch', startMs).used).toBe(0);
  expect(counters.inFlightUnits()).toBe(5);
});

test('requests in flight survive the sweep of past minutes, and the current minute is not swept', () => {
  const counters = new LocalCounters(noUsage);
  const leases = Array.from({ length: 50 }, (_, n) => counters.reserve(`org-${n}`, 1, startMs));
  const laterMs = startMs + 3 * windowMs;
  counters.reserve('acme', 1, laterMs);
  counters.reserve('birch', 1, laterMs + 1);
  expect(counters.window('acme', laterMs).used).toBe(1);
  expect(counters.window('org-7', startMs).used, 'the minute of long ago is forgotten').toBe(0);
  expect(counters.inFlightUnits()).toBe(52);
  for (const lease of leases) lease.release();
  expect(counters.inFlightUnits()).toBe(2);
});

test('Limits 4: tokens and turns are read from usage, with the given period and visitor', () => {
  const asked: unknown[] = [];
  const counters = new LocalCounters({
    poolTokensAt: (...parts) => asked.push(parts) * 10,
    freeTurns: (visitor) => asked.push(visitor) * 10,
    networkTurns: (network) => asked.push(network) * 100,
    visitorTokens: (atMs) => atMs,
  });
  expect(counters.poolTokens('acme', '2026-11-01', 5)).toBe(10);
  expect(counters.freeTurns('v1', 5)).toBe(20);
  expect(counters.networkTurns('n1', 5)).toBe(300);
  expect(counters.visitorTokens(5)).toBe(5);
  expect(asked).toEqual([['acme', '2026-11-01', 5], 'v1', 'n1']);
});

test('a cancelled request leaves no trace in its minute, up to the tier’s requests per minute', () => {
  const counters = new LocalCounters({
    poolTokensAt: () => 0,
    freeTurns: () => 0,
    networkTurns: () => 0,
    visitorTokens: () => 0,
  });
  const used = (nowMs: number): number => counters.window('acme', nowMs).used;
  for (let i = 0; i < 5; i++) {
    const lease = counters.reserve('acme', 2, 0);
    lease.cancel(3);
    lease.cancel(3);
    lease.release();
    expect(counters.inFlight('acme')).toBe(0);
    expect(used(0)).toBe(Math.max(0, i - 2));
  }
  const released = counters.reserve('acme', 1, 0);
  released.release();
  released.cancel(null);
  expect(used(0)).toBe(3);
  // A request that began in an earlier minute must not be subtracted from the count of the current minute.
  const late = counters.reserve('acme', 1, 0);
  counters.reserve('acme', 1, 120_000);
  late.cancel(null);
  expect(used(120_000)).toBe(1);
});
