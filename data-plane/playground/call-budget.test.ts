/** Tests how many playground calls are handled per second. */
import { expect, test } from 'vitest';
import { CallBudget } from './call-budget.ts';

const admitted = (budget: CallBudget, address: (n: number) => string, count: number, nowMs: number): number =>
  Array.from({ length: count }, (_, n) => budget.tryAcquire(address(n), nowMs)).filter(Boolean).length;

test('a single network may use a quarter of the calls per second', () => {
  const budget = new CallBudget(400);
  expect(admitted(budget, () => '192.0.2.1', 1000, 5000)).toBe(100);
  expect(admitted(budget, () => '192.0.2.1', 1, 5999)).toBe(0);
  expect(admitted(budget, () => '192.0.2.1', 1000, 6000)).toBe(100);
});

test('ten networks that use all they can, in turn or at once, leave calls for others', () => {
  for (const address of [
    (n: number) => `192.0.2.${n % 10}`,
    (n: number) => `192.0.2.${Math.floor(n / 1000)}`,
  ]) {
    const budget = new CallBudget(400);
    admitted(budget, address, 10_000, 5000);
    expect(admitted(budget, () => '198.51.100.1', 5, 5000)).toBe(5);
  }
});

test('networks with one call each may use all calls of a second, but no more', () => {
  const budget = new CallBudget(400);
  const address = (n: number): string => `10.0.${n >> 8}.${n & 255}`;
  expect(admitted(budget, address, 1000, 5000)).toBe(400);
  expect(admitted(budget, address, 1000, 6000)).toBe(400);
});

test('IPv6 addresses with the same first 48 bits are one network', () => {
  const budget = new CallBudget(400);
  expect(admitted(budget, (n) => `2001:db8:1:${n.toString(16)}::1`, 1000, 5000)).toBe(100);
  expect(admitted(budget, () => '2001:db8:2::1', 5, 5000)).toBe(5);
});
