/**
 * Tests that a change released in waves survives control planes that are killed at each of its steps, a log that temporarily
 * refuses writes, and gateways that join, restart or are renamed. Two control planes watch the change, and the log must
 * contain each step once.
 */
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { CommitReader } from '../../control-plane/state/commits.ts';
import { controlTopic } from '../../schemas/events/commit.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { scaledMs } from '../support/budget.ts';
import { metric } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { models, nameOf, StagedFleet, SteadyLoad, statusOf } from './staged-fleet.ts';

const fleet = new StagedFleet();
const planes = ['cp-1', 'cp-2'];
beforeAll(() => fleet.open(2, 3), scaledMs(120_000));
afterAll(() => fleet.close());

const status = (gateway: string) => statusOf(fleet.gateways.get(gateway)?.ready.api ?? '', fleet.key);
const statuses = () => Promise.all([...fleet.gateways.keys()].sort().map(status));
const are = (...wanted: number[]) => until(async () => String(await statuses()) === String(wanted));

/** Kills both control planes at once and starts them again. */
async function crash(): Promise<void> {
  await Promise.all(planes.map((name) => fleet.kill(name)));
  await Promise.all(planes.map((name) => fleet.plane(name)));
}

async function steps(change: string): Promise<string[]> {
  const log = await openLog(fleet.logUrl, { topic: controlTopic });
  const found: string[] = [];
  try {
    for await (const batch of new CommitReader(log, null).upTo(await fleet.operator().position()))
      for (const { commit } of batch)
        for (const { type, data } of commit.events) {
          const of = data as { readonly change?: string; readonly wave?: number };
          if (type.startsWith('change.') && of.change === change)
            found.push(`${type.slice(7)} ${of.wave ?? ''}`.trim());
        }
  } finally {
    await log.close();
  }
  return found;
}
const toTheEnd = ['staged', 'advanced 1', 'advanced 2', 'advanced 3', 'completed'];

/** Waits until all gateways and both control planes have the same state. */
async function alike(): Promise<void> {
  await until(async () => {
    const found = await Promise.all(planes.map((name) => fleet.operator(name).call('GET', '/status')));
    const { items } = await fleet.operator().call('GET', '/gateways');
    const states = [
      ...items.map(({ applied, digest }) => `${applied} ${digest}`),
      ...found.map((of) => `${of.position} ${of.digest}`),
    ];
    return new Set(states).size === 1 && items.every(({ state }) => state === 'SYNCED');
  }, 60_000);
}

const over = async (id: string) => {
  await until(async () => (await fleet.change(id)).state !== 'open', 60_000);
  return fleet.change(id);
};
/** Stages a harmless change that is released in three waves. */
const limit = (concurrency: number, hold = '1s') =>
  fleet
    .operator()
    .call('PUT', `/tiers/Wide?stage=true&waves=gw-01,gw-01%2Bgw-02,all&hold=${hold}&watch=least=0`, {
      models,
      concurrency,
    });

afterEach(async () => {
  for (const { id, state } of (await fleet.operator().call('GET', '/staged-changes')).items)
    if (state === 'open') await fleet.operator().call('POST', `/staged-changes/${id}/withdraw`, {});
});

test(
  'control planes killed after each of their steps finish the change, and the log has each step once',
  async () => {
    const { id } = await limit(99);
    for (const wave of [1, 2, 3]) {
      await until(async () => (await fleet.change(id)).wave >= wave);
      await crash();
    }
    expect(await over(id)).toMatchObject({ state: 'completed', wave: 3 });
    await crash();
    expect(await fleet.change(id)).toMatchObject({ state: 'completed', wave: 3 });
    expect(await steps(id)).toEqual(toTheEnd);
    expect(await fleet.operator().call('GET', '/tiers/Wide')).toMatchObject({ concurrency: 99 });
    await alike();
  },
  scaledMs(180_000),
);

test(
  'control planes killed while the first wave refuses withdraw the change once, when they are back',
  async () => {
    const load = new SteadyLoad(fleet);
    onTestFinished(() => load.stop());
    const { id } = await fleet.stage('waves=gw-01,all&hold=1h&watch=least=20');
    await until(() => load.total((_, code) => code === 403) > 5);
    await crash();
    expect(await over(id)).toMatchObject({
      state: 'withdrawn',
      wave: 1,
      reason: expect.stringContaining('refused in the wave'),
    });
    await are(200, 200, 200);
    await load.stop();
    expect(load.total((name, code) => name !== nameOf(1) && code !== 200)).toBe(0);
    expect(await steps(id)).toEqual(['staged', 'advanced 1', 'withdrawn']);
    const counted = await Promise.all(
      [...fleet.planes.values()].map((plane) => metric(plane, 'headgate_changes_withdrawn_total')),
    );
    expect(counted[0]! + counted[1]!).toBe(1);
    await alike();
  },
  scaledMs(120_000),
);

test(
  'while the log accepts nothing, a change waits and then continues, and no gateway counts as silent',
  async () => {
    const { id } = await limit(98, '1h');
    const topics = [controlTopic, statusTopic].map((topic) =>
      openDatabase(join(fleet.logFolder, `${topic}.db`), { durability: 'full' }),
    );
    try {
      for (const topic of topics) topic.exec('BEGIN EXCLUSIVE');
      for (const plane of planes)
        await until(async () => {
          const { items } = await fleet.operator(plane).call('GET', '/gateways');
          return items.every(({ state }) => state === 'STALE');
        }, 60_000);
      expect(await statuses()).toEqual([200, 200, 200]);
    } finally {
      for (const topic of topics) topic.close();
    }
    await alike();
    for (const wave of [2, 3, 3]) {
      const { position } = await fleet.operator().call('POST', `/staged-changes/${id}/advance`);
      expect(await fleet.change(id), `${position}`).toMatchObject({ wave });
    }
    expect(await steps(id)).toEqual(toTheEnd);
    await alike();
  },
  scaledMs(120_000),
);

test(
  'a joining gateway is in no wave that has begun, a killed one returns to its wave, and names decide',
  async () => {
    const { id } = await fleet.stage('waves=gw-01,all&hold=1h&watch=least=100000');
    await are(403, 200, 200);
    await fleet.gateway('gw-04');
    await are(403, 200, 200, 200);
    await fleet.kill('gw-01');
    await fleet.gateway('gw-01');
    await are(403, 200, 200, 200);
    await alike();

    await fleet.kill('gw-01');
    fleet.gateways.delete('gw-01');
    renameSync(join(fleet.dir, 'gw-01'), join(fleet.dir, 'gw-05'));
    await fleet.gateway('gw-05');
    await are(200, 200, 200, 200);
    expect(await fleet.change(id)).toMatchObject({ state: 'open', wave: 1 });
    await alike();
    await fleet.operator().call('POST', `/staged-changes/${id}/advance`);
    await are(403, 403, 403, 403);
    await fleet.operator().call('POST', `/staged-changes/${id}/withdraw`, { reason: 'seen enough' });
    await are(200, 200, 200, 200);
    expect(await steps(id)).toEqual(['staged', 'advanced 1', 'advanced 2', 'withdrawn']);
    await alike();
  },
  scaledMs(120_000),
);
