// Tests that nothing leaks and nothing is billed wrongly while clients leave, nodes fail and gateways die. Runs the short
// form of the `npm run soak` scenarios, with real processes. SEED repeats the clients' choices.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { drain } from './drain.ts';
import { clientCount, SoakFleet } from './fleet.ts';
import { forgottenMsMax, kills } from './kills.ts';
import { mixedLoad } from './mixed-load.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const log = (figures: object): void => void process.stdout.write(`SEED=${seed} ${JSON.stringify(figures)}\n`);
let fleet: SoakFleet;

beforeAll(async () => {
  fleet = await SoakFleet.start();
});
afterAll(() => fleet.close());

test('Events: 2 000 requests with leaving clients and failing nodes leak no slot and are billed as delivered', async () => {
  const figures = await mixedLoad(fleet, { requests: 2000, seed });
  log(figures);
  const { settled, outcomes, admitted, descriptors } = figures;
  expect(settled.faults).toEqual([]);
  expect(settled.missing).toBe(0);
  expect(settled.clients).toBeGreaterThan(1000);
  expect(outcomes['left by the client']).toBeGreaterThan(100);
  expect(outcomes['cut']).toBeGreaterThan(20);
  expect(outcomes['InferenceUnavailableError']).toBeGreaterThan(20);
  expect(outcomes['InferenceConcurrencyLimitedError']).toBeGreaterThan(0);
  expect(figures.inFlightUnits).toBe(0);
  expect(admitted).toEqual([8, 8]);
  expect(descriptors[1] - descriptors[0]).toBeLessThan(2 * clientCount);
});

test('Events: a gateway killed twice under load bills only finished requests, and loses only the last moments', async () => {
  const figures = await kills(fleet, { kills: 2, seed });
  log(figures);
  const { settled, missingOwnAgesMs, totals } = figures;
  expect(settled.faults).toEqual([]);
  expect(settled.rows).toBeLessThanOrEqual(settled.nodes);
  // Most of what clients received must be billed, however few requests a busy machine has served.
  expect(settled.rows).toBeGreaterThan(Math.max(8, settled.clients / 2));
  // Compares the median. If a flush has to wait for a busy disk, a few rows are late; if rows were held back by mistake, all
  // would be.
  expect(missingOwnAgesMs[Math.floor(missingOwnAgesMs.length / 2)] ?? 0).toBeLessThan(forgottenMsMax);
  expect(missingOwnAgesMs[0] ?? 0).toBeLessThan(4 * forgottenMsMax);
  expect(totals[1]).toEqual(totals[0]);
  expect(totals[2]).toEqual(totals[0]);
  for (const [id, { totalTokens }] of Object.entries(totals[0] ?? {}))
    expect(figures.counted[id], `limits show of ${id}`).toBe(totalTokens);
});

test('a gateway that receives SIGTERM is unready at once, keeps serving, and cuts no stream during the drain', async () => {
  const figures = await drain(fleet, 'short');
  log(figures);
  expect(figures).toMatchObject({ cut: 0, completed: figures.streams, billed: figures.streams, exitCode: 0 });
  expect(figures.runningWhenUnready).toBe(figures.streams);
  expect(figures.servedWhileUnready).toBe(true);
});

test('Events: streams longer than the drain time are cut without a terminator and are not billed', async () => {
  const figures = await drain(fleet, 'long');
  log(figures);
  expect(figures).toMatchObject({ cut: figures.streams, completed: 0, billed: 0, exitCode: 0 });
  // The sum of one second of drain delay and one of drain time. A busy machine can only lengthen it.
  expect(figures.endedMs).toBeGreaterThan(1900);
});

test('a second signal ends a gateway at once, including its streams', async () => {
  const figures = await drain(fleet, 'twice');
  log(figures);
  expect(figures).toMatchObject({ cut: figures.streams, completed: 0, billed: 0, exitCode: 130 });
});
