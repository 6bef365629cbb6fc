/**
 * The claims of gateways in simulated fleets: whatever crashes, pauses, and is lost, doubled or late, no limit is exceeded by
 * more than docs/limits.md states, and no gateway is starved; a failure names its seed.
 */
import { expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import type { Plan } from './claims-plan.ts';
import { Simulation } from './claims-simulation.ts';

const count = runs({ fast: 50, full: 400 });

function outcomes(plan: Omit<Plan, 'seed'>) {
  return Array.from({ length: count }, (_, index) => ({
    seed: index + 1,
    ...new Simulation({ ...plan, seed: index + 1 }).run(),
  }));
}

/** Refused falsely, of all requests. */
function falsePart(all: ReturnType<typeof outcomes>): number {
  const requests = all.reduce((total, { refused, admitted }) => total + refused + admitted, 0);
  return all.reduce((total, { refusedFalsely }) => total + refusedFalsely, 0) / requests;
}

const beyond = (all: ReturnType<typeof outcomes>) => all.filter((outcome) => outcome.beyond > 0);
const starved = (all: ReturnType<typeof outcomes>, ms: number) =>
  all.filter(({ starvedMs }) => starvedMs > ms);

test('Limits 1: without faults a minute has at most one request above its limit for each gateway, and none is refused while there is room', () => {
  const all = outcomes({ kind: 'rate', faults: 'none' });
  expect(beyond(all)).toEqual([]);
  expect(all.filter(({ over, gateways }) => over > gateways)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 1000);
});

test('Limits 1: with all faults a minute stays within the stated bound', () => {
  const all = outcomes({ kind: 'rate', faults: 'all' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 8000), 'a minute of the simulation').toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 16);
});

test('Limits 1: gateways that stop cleanly leave all of a minute that they did not use to those that are there', () => {
  const all = outcomes({ kind: 'rate', faults: 'stops' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 0)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 1000);
});

test('Limits 2: without faults the weight in flight stays within the stated bound', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'none' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 5000), 'in 2 000 fleets 3.3 s at the longest').toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 12);
});

test('Limits 2: with all faults the weight in flight stays within the stated bound', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'all' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 14_000), 'ten seconds until a silent gateway ends, and what follows').toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 10);
});

test('Limits 2: gateways that stop cleanly leave all that they held in flight to those that are there', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'stops' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 7000), 'in 2 000 fleets 4.5 s at the longest').toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 12);
});

test('a client that stays on one gateway gets the whole limit within 50 ms, and waits for the log once', () => {
  for (const outcome of outcomes({ kind: 'rate', faults: 'none', sticky: true })) {
    expect(outcome).toMatchObject({ admitted: 60, refused: 0 });
    expect(outcome.waitedMsMax, `seed ${outcome.seed}`).toBeLessThan(200);
  }
});
