/**
 * The claims of gateways in simulated fleets: whatever crashes, pauses, and is lost, doubled or late, no limit is exceeded by
 * more than docs/limits.md states; a failure names its seed.
 */
import { expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { type Plan, Simulation } from './simulation.ts';

const count = runs({ fast: 50, full: 400 });

function outcomes(plan: Omit<Plan, 'seed'>) {
  return Array.from({ length: count }, (_, index) => ({
    seed: index + 1,
    ...new Simulation({ ...plan, seed: index + 1 }).run(),
  }));
}

function sum(all: readonly Readonly<Record<'refused' | 'refusedFalsely' | 'admitted', number>>[]) {
  return {
    requests: all.reduce((total, { refused, admitted }) => total + refused + admitted, 0),
    refusedFalsely: all.reduce((total, { refusedFalsely }) => total + refusedFalsely, 0),
  };
}

const beyond = (all: ReturnType<typeof outcomes>) => all.filter((outcome) => outcome.beyond > 0);

test('Limits 1: without faults a minute has at most one request above its limit for each gateway, and none is refused while there is room', () => {
  const all = outcomes({ kind: 'rate', faults: false });
  expect(beyond(all)).toEqual([]);
  expect(all.filter(({ over, gateways }) => over > gateways)).toEqual([]);
  const { requests, refusedFalsely } = sum(all);
  expect(refusedFalsely).toBeLessThan(requests / 1000);
});

test('Limits 1: with all faults a minute stays within the stated bound', () => {
  const all = outcomes({ kind: 'rate', faults: true });
  expect(beyond(all)).toEqual([]);
  const { requests, refusedFalsely } = sum(all);
  expect(refusedFalsely).toBeLessThan(requests / 8);
});

test('Limits 2: without faults the weight in flight stays within the stated bound', () => {
  const all = outcomes({ kind: 'concurrency', faults: false });
  expect(beyond(all)).toEqual([]);
  const { requests, refusedFalsely } = sum(all);
  expect(refusedFalsely).toBeLessThan(requests / 10);
});

test('Limits 2: with all faults the weight in flight stays within the stated bound', () => {
  const all = outcomes({ kind: 'concurrency', faults: true });
  expect(beyond(all)).toEqual([]);
  const { requests, refusedFalsely } = sum(all);
  expect(refusedFalsely).toBeLessThan(requests / 5);
});

test('a client that stays on one gateway gets the whole limit within 50 ms, and waits for the log once', () => {
  for (const outcome of outcomes({ kind: 'rate', faults: false, sticky: true })) {
    expect(outcome).toMatchObject({ admitted: 60, refused: 0 });
    expect(outcome.waitedMsMax, `seed ${outcome.seed}`).toBeLessThan(200);
  }
});
