/**
 * Tests gateways' claims in simulated fleets. Despite crashes, pauses, and lost, duplicate or late records, no limit may be
 * exceeded by more than docs/limits.md states, and no gateway may be starved. A failure names its seed.
 */
import { expect, test } from 'vitest';
import { Claimant } from '../../data-plane/limits/claimant.ts';
import { runs } from '../support/budget.ts';
import { readGauges } from '../support/read-gauges.ts';
import { Bound, type BoundGateway } from './claims-bound.ts';
import type { Plan } from './claims-plan.ts';
import { Simulation } from './claims-simulation.ts';

const count = runs({ fast: 50, full: 50 });

function outcomes(plan: Omit<Plan, 'seed'>) {
  return Array.from({ length: count }, (_, index) => ({
    seed: index + 1,
    ...new Simulation({ ...plan, seed: index + 1 }).run(),
  }));
}

function falsePart(all: ReturnType<typeof outcomes>): number {
  const requests = all.reduce((total, { refused, admitted }) => total + refused + admitted, 0);
  return all.reduce((total, { refusedFalsely }) => total + refusedFalsely, 0) / requests;
}

const beyond = (all: ReturnType<typeof outcomes>) => all.filter((outcome) => outcome.beyond > 0);
const starved = (all: ReturnType<typeof outcomes>, ms: number) =>
  all.filter(({ starvedMs }) => starvedMs > ms);
/** Like `starved`, but includes gateways that receive less than one request per second. */
const starvedRarely = (all: ReturnType<typeof outcomes>, ms: number) =>
  all.filter(({ starvedRareMs }) => starvedRareMs > ms);

test('Limits 1: without faults, a minute exceeds its limit by at most one per gateway, and uses all its room', () => {
  const all = outcomes({ kind: 'rate', faults: 'none' });
  expect(beyond(all)).toEqual([]);
  expect(all.filter(({ over, gateways }) => over > gateways)).toEqual([]);
  expect(starvedRarely(all, 1500)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 1000);
});

test('Limits 1: with all faults, a minute stays within the stated bound', () => {
  const all = outcomes({ kind: 'rate', faults: 'all' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 8000), 'a minute of the simulation').toEqual([]);
  expect(starvedRarely(all, 8000), 'a minute of the simulation').toEqual([]);
  // A dead process's standing share counts until its minute ends. In these minutes of 8 s most processes die, so many
  // refusals are wrong.
  expect(falsePart(all)).toBeLessThan(1 / 8);
});

test('Limits 1: gateways that stop cleanly leave all unused room of a minute to the remaining ones', () => {
  const all = outcomes({ kind: 'rate', faults: 'stops' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 0)).toEqual([]);
  expect(starvedRarely(all, 0)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 1000);
});

test('Limits 2: without faults, concurrency stays within the stated bound', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'none' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 3000)).toEqual([]);
  expect(starvedRarely(all, 7000)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 12);
});

test('Limits 2: if all gateways’ clients exceed the limit, even a slow gateway with a standing share is served', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'none', saturated: true });
  expect(beyond(all)).toEqual([]);
  const shared = all.filter(({ limit, gateways }) => limit >= 2 * gateways);
  expect(shared.length).toBeGreaterThan(count / 3);
  expect(shared.filter(({ unservedMs }) => unservedMs > 5000)).toEqual([]);
}, 60_000);

test('Limits 2: with all faults, concurrency stays within the stated bound', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'all' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 14_000), 'ten seconds until a silent gateway ends, and what follows').toEqual([]);
  expect(starvedRarely(all, 14_000)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 10);
});

test('Limits 2: gateways that stop cleanly leave all their concurrency to the remaining ones', () => {
  const all = outcomes({ kind: 'concurrency', faults: 'stops' });
  expect(beyond(all)).toEqual([]);
  expect(starved(all, 3000)).toEqual([]);
  expect(starvedRarely(all, 3000)).toEqual([]);
  expect(falsePart(all)).toBeLessThan(1 / 12);
});

test.each([
  ['Limits 1', 'rate', 'changing', 'none'],
  ['Limits 2', 'concurrency', 'changing', 'none'],
  ['Limits 1', 'rate', 'clocks', 'none'],
  ['Limits 1', 'rate', 'clocks', 'all'],
  ['Limits 2', 'concurrency', 'clocks', 'all'],
] as const)(
  '%s: %s stays within the stated bound even with a changed limit or clocks off by days (%s, faults: %s)',
  (_, kind, fleet, faults) => {
    expect(beyond(outcomes({ kind, faults, fleet }))).toEqual([]);
  },
);

test.each(['rate', 'concurrency'] as const)(
  'Limits 1, Limits 2: %s stays within the stated bound with a slow log, busy loops and fifty gateways',
  (kind) => {
    expect(beyond(outcomes({ kind, faults: 'all', slow: true }))).toEqual([]);
    const seeds = Array.from({ length: Math.ceil(count / 50) }, (_, index) => index + 1);
    const large = seeds.map((seed) => new Simulation({ kind, faults: 'all', fleet: 'large', seed }).run());
    expect(large.filter((outcome) => outcome.beyond > 0)).toEqual([]);
  },
  120_000,
);

test('Limits 1: a released standing share is used again only once all shares fit, even without requests', () => {
  // With this seed, four requests exceeded the limit as long as usage from before a share was given up was still counted.
  expect(new Simulation({ kind: 'rate', faults: 'stops', seed: 3816 }).run()).toMatchObject({ beyond: 0 });
});

test.each<Plan>([
  { kind: 'concurrency', faults: 'stops', seed: 5436 },
  { kind: 'concurrency', faults: 'all', slow: true, seed: 4571 },
  { kind: 'concurrency', faults: 'all', fleet: 'clocks', seed: 3403 },
])('Limits 2: a gateway that has not read of a new one may use its earlier share: seed $seed', (plan) => {
  expect(new Simulation(plan).run()).toMatchObject({ beyond: 0 });
});

test('a client that stays on one gateway gets the whole limit quickly, as the others give up their shares', () => {
  for (const outcome of outcomes({ kind: 'rate', faults: 'none', sticky: true })) {
    expect(outcome).toMatchObject({ admitted: 60, refused: 0 });
    expect(outcome.waitedMsMax, `seed ${outcome.seed}`).toBeLessThan(600);
  }
});

test('a gateway asked each 1.1 s and always wrongly refused counts as starved though rarely asked', () => {
  const claimant = new Claimant({ name: 'g1', mint: () => 'p1', live: 1 });
  const gateway: BoundGateway = {
    ...{ claimant, streams: new Set(), refusedMs: 0 },
    ...{ starvedSinceMs: undefined, starvedRareSinceMs: undefined, servedMs: 0 },
  };
  const bound = new Bound(4, [gateway], []);
  const window = 1;
  claimant.add({ subject: 'acme', window, limit: 4 }, 1, 0);
  for (let [nowMs, offset] = [0, 0]; nowMs <= 11_000; nowMs += 100) {
    // The gateway keeps reading the log, so it stays connected.
    for (const record of claimant.records(nowMs, nowMs))
      claimant.onRecord(readGauges(record), offset++, nowMs);
    if (nowMs % 1100 === 0) bound.refuse(gateway, window, 1, nowMs);
  }
  expect(bound.outcome).toMatchObject({ refusedFalsely: 11, starvedMs: 0, starvedRareMs: 11_000 });
});
