// Goal: over a real Kafka no promise breaks while brokers, gateways and control planes die, freeze or are cut off.
// Method: the scenarios of `npm run chaos` in their short form, with the built service. SEED repeats the random choices.
import { expect, test } from 'vitest';
import { forgottenMsMax } from '../soak/kills.ts';
import { brokerKills } from './broker-kills.ts';
import { outage } from './outage.ts';
import { racing } from './racing.ts';
import { usage } from './usage.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
/** On a machine that does other things, too; the long forms say how soon it is. */
const backSecondsMax = 20;
const log = (figures: object): void => void process.stdout.write(`SEED=${seed} ${JSON.stringify(figures)}\n`);

test('a broker killed under commands of two control planes loses no acknowledged one, and all folds stay equal', async () => {
  const figures = await brokerKills({ nodes: 1, kills: 2, seed });
  log(figures);
  expect(figures.faults).toEqual([]);
  expect(figures.commands.done).toBeGreaterThan(10);
});

test('appends that are frozen, lost, late or forged leave each command done once or refused', async () => {
  const figures = await racing({
    freezesMs: [1000],
    randomFreezes: 2,
    meddledAppends: 25,
    forgeries: 2,
    seed,
  });
  log(figures);
  expect(figures.faults).toEqual([]);
  expect(figures.skipped).toBeGreaterThan(2);
});

test('Events: usage over Kafka is billed once and folded alike, whatever is killed, written twice or deleted', async () => {
  const figures = await usage({ kills: 6, seed });
  log(figures);
  expect(figures.faults).toEqual([]);
  expect(figures.settled.rows).toBeGreaterThan(20);
  expect(figures.meddled).toBeGreaterThan(0);
  expect(figures.missingOwnAgesMs[0] ?? 0).toBeLessThan(4 * forgottenMsMax);
});

test('without a control plane nothing changes for callers, and without Kafka a gateway keeps serving and recovers', async () => {
  const figures = await outage({ planeDownMs: 1000, kafkaDownMs: 3000, coldStart: false, backSecondsMax });
  log(figures);
  expect(figures.faults).toEqual([]);
});
