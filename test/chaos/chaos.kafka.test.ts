// Tests that no promise is broken while brokers, gateways and control planes on a real Kafka die, freeze or are cut off. Runs
// the `npm run chaos` scenarios in their short form with the built service. SEED repeats the random choices.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { forgottenMsMax } from '../soak/kills.ts';
import { brokerKills } from './broker-kills.ts';
import { type CutOffFigures, cutOff } from './cut-off.ts';
import { outage } from './outage.ts';
import { racing } from './racing.ts';
import { usage } from './usage.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
/**
 * Longest time until gateways accept keys again, in s. Generous, because this machine may be busy; the long scenarios check
 * the promised time.
 */
const backSecondsMax = 20;
const log = (figures: object): void => void process.stdout.write(`SEED=${seed} ${JSON.stringify(figures)}\n`);

/** This scenario starts first, because it waits for most of a minute while the other scenarios run. */
let cut: Promise<CutOffFigures>;
beforeAll(() => {
  cut = cutOff({ how: 'silent', restartEveryMs: 20_000, frozenMs: 47_000, backSecondsMax });
  cut.catch(() => undefined);
});
afterAll(() => cut.catch(() => undefined));

test('killing a broker under two control planes’ commands loses no acknowledged one, and all folds stay equal', async () => {
  const figures = await brokerKills({ nodes: 1, kills: 1, seed });
  log(figures);
  expect(figures.faults).toEqual([]);
  expect(figures.commands.done).toBeGreaterThan(10);
});

test('frozen, lost, late or forged appends leave each command done once or refused', async () => {
  const figures = await racing({
    freezesMs: [1000],
    randomFreezes: 1,
    meddledAppends: 12,
    forgeries: 2,
    seed,
  });
  log(figures);
  expect(figures.faults).toEqual([]);
  expect(figures.skipped).toBeGreaterThan(2);
});

test('Events: usage over Kafka is billed once and folded alike, despite kills, repeated records and deletions', async () => {
  const figures = await usage({ kills: 3, seed });
  log(figures);
  expect(figures.faults).toEqual([]);
  expect(figures.settled.rows).toBeGreaterThan(20);
  expect(figures.meddled).toBeGreaterThan(0);
  expect(figures.missingOwnAgesMs[0] ?? 0).toBeLessThan(4 * forgottenMsMax);
});

test('without a control plane callers notice nothing, and without Kafka a gateway keeps serving and recovers', async () => {
  const figures = await outage({ planeDownMs: 1000, kafkaDownMs: 3000, coldStart: false, backSecondsMax });
  log(figures);
  expect(figures.faults).toEqual([]);
});

test('Limits: every gateway refuses a revoked key within 60 s, even cut off, started without the log or frozen', async () => {
  const figures = await cut;
  log(figures);
  expect(figures.faults).toEqual([]);
});
