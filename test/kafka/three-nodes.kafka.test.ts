/**
 * Tests the log on three brokers: its contract, its number of replicas, and a leader that is cut off or killed during
 * appends.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../control-plane/main.ts';
import { type RunningGateway, startGateway } from '../../data-plane/main.ts';
import { AppendUnknown, LogUnavailable } from '../../shared/log/core/control-log.ts';
import { createDial } from '../../shared/log/kafka/client.ts';
import type { KafkaConnection } from '../../shared/log/kafka/connection.ts';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { demoFleet } from '../../tools/dev/demo-fleet.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { controlLogContract, readRecords } from '../contract/control-log.ts';
import { gatewayAlone, nobodyThere, operatorToken, planeSettings } from '../support/fleet.ts';
import { statusWith } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import type { Kafka } from './broker.ts';
import { type SplitKafka, startSplitKafka } from './split.ts';

let split: SplitKafka;
let kafka: Kafka;
let topics = 0;
beforeAll(async () => {
  split = await startSplitKafka();
  ({ kafka } = split);
}, 180_000);
afterAll(() => split?.stop());

async function ask<Answer>(node: number, question: (connection: KafkaConnection) => Promise<Answer>) {
  const connection = await createDial({})({ host: '127.0.0.1', port: kafka.port(node) });
  try {
    return await question(connection);
  } finally {
    connection.destroy();
  }
}

/** Returns which node is the leader according to one broker, or undefined if this broker does not know the topic yet. */
async function leaderAsSeenBy(node: number, topic: string): Promise<number | undefined> {
  const { partitions } = await ask(node, (connection) => connection.metadata(topic));
  return partitions[0]?.leader;
}

controlLogContract('the Kafka log on three brokers', async () => {
  const topic = `contract-${topics++}`;
  return {
    open: () => openKafkaLog(kafka.brokers, {}, { topic, partition: 0 }),
    dispose: async () => undefined,
  };
});

test('topics are created with three replicas, two of which must acknowledge', async () => {
  const log = await openKafkaLog(kafka.brokers, {}, { topic: 'headgate.control', partition: 0 });
  await log.append(Buffer.from('x'));
  await log.close();
  const { partitions } = await ask(1, (connection) => connection.metadata('headgate.control'));
  expect(partitions[0]!.replicas).toHaveLength(3);
  const settings = await ask(1, (connection) => connection.topicSettings('headgate.control'));
  expect(settings.get('min.insync.replicas')).toBe('2');
});

/**
 * A leader is cut off from the other brokers, together with a gateway. It still answers, but its responses must not count as
 * proof of freshness. The gateway's proofs stop at once, and 45 s later it stops serving. So a revocation that the other
 * brokers acknowledge meanwhile is never ignored for more than a minute.
 */
describe('a leader that is cut off', () => {
  const place = { topic: 'headgate.control', partition: 0 };
  const dir = mkdtempSync(join(tmpdir(), 'headgate-split-'));
  let controlPlane: ControlPlane;
  let gateway: RunningGateway;
  let admin: DevAdmin;
  beforeAll(async () => {
    controlPlane = await startControlPlane(planeSettings(dir, kafka.url));
    admin = new DevAdmin(controlPlane.admin, operatorToken);
    await admin.apply(demoFleet(nobodyThere));
    gateway = await startGateway(gatewayAlone(dir, split.observedUrl));
  }, 180_000);
  afterEach(() => split.heal());
  afterAll(async () => {
    await gateway?.close();
    await controlPlane?.close();
    rmSync(dir, { recursive: true, force: true });
  }, 60_000);

  async function freshSeconds(): Promise<number> {
    const response = await fetch(`${gateway.metrics}/metrics`);
    return Number(/^headgate_fold_lag_seconds(?:\{[^}]*\})? (\S+)$/m.exec(await response.text())?.[1]);
  }

  /** Cuts off the leader and the gateway, and waits until the other brokers have elected another leader. */
  async function cutOff(): Promise<{ readonly oldLeader: number; readonly atMs: number }> {
    const oldLeader = (await leaderAsSeenBy(1, place.topic)) ?? 0;
    const other = oldLeader === 1 ? 2 : 1;
    await expect.poll(freshSeconds, { timeout: 20_000 }).toBeLessThan(5);
    split.split(oldLeader);
    const atMs = performance.now();
    await expect.poll(() => leaderAsSeenBy(other, place.topic), { timeout: 30_000 }).not.toBe(oldLeader);
    return { oldLeader, atMs };
  }

  test('proves nothing to a gateway cut off with it, even if it still responds', async () => {
    const { oldLeader, atMs } = await cutOff();
    const answers: number[] = [];
    while (performance.now() - atMs < 12_000) {
      expect(await leaderAsSeenBy(oldLeader, place.topic)).toBe(oldLeader);
      answers.push(await ask(oldLeader, (connection) => connection.offset(place, 'end')));
      const secondsCutOff = (performance.now() - atMs) / 1000;
      expect(await freshSeconds()).toBeGreaterThan(secondsCutOff - 2);
      await pause(500);
    }
    expect(new Set(answers).size).toBe(1);
    split.heal();
    await expect.poll(freshSeconds, { timeout: 30_000 }).toBeLessThan(5);
  }, 120_000);

  async function createKey(): Promise<{ id: string; key: string }> {
    const organisation = demoOrganisation();
    const untilMs = performance.now() + 60_000;
    for (;;) {
      try {
        const { id, value } = await admin.createKey(organisation, 'split');
        return { id, key: value };
      } catch (error) {
        // While there is no leader, a command may be unavailable or have an unknown outcome, so repeat it.
        if (performance.now() > untilMs) throw error;
        await pause(500);
      }
    }
  }

  function demoOrganisation(): string {
    return demoFleet(nobodyThere).organisations![0]!.id;
  }

  const statusOf = (key: string): Promise<number> => statusWith(gateway.api, key, { model: 'unknown-model' });

  /** Runs only with HEADGATE_LONG=1, because it waits a minute until the gateway stops serving. */
  test.runIf(process.env['HEADGATE_LONG'])(
    'cannot keep that gateway from refusing, within 60 s, a key that the others revoke',
    async () => {
      const { id, key } = await createKey();
      await expect.poll(() => statusOf(key), { timeout: 20_000 }).toBe(404);
      await cutOff();
      const revoke = () =>
        admin.call('POST', `/keys/${id}/revoke`, {}).then(
          () => true,
          () => false,
        );
      await expect.poll(revoke, { timeout: 60_000 }).toBe(true);
      const revokedMs = performance.now();
      await expect.poll(() => statusOf(key), { timeout: 60_000, interval: 200 }).toBe(503);
      console.log(
        `fenced ${((performance.now() - revokedMs) / 1000).toFixed(1)} s after the revocation was acknowledged`,
      );
      split.heal();
      await expect.poll(() => statusOf(key), { timeout: 30_000 }).toBe(401);
    },
    180_000,
  );
});

test('a reader leaves a leader that its peers have replaced, even if it can still reach it', async () => {
  await until(
    async () => (await ask(1, (connection) => connection.metadata('deposed'))).brokers.length === 3,
  );
  const place = { topic: 'deposed', partition: 0 };
  const log = await openKafkaLog(kafka.brokers, {}, place);
  // The brokers are listed in reverse, so that the writer gets a client of its own, which shares no metadata with the
  // reader's client.
  const writer = await openKafkaLog(kafka.brokers.toReversed(), {}, place);
  onTestFinished(async () => {
    split.heal();
    await Promise.all([log.close(), writer.close()]);
  });
  const read: string[] = [];
  const reading = (async () => {
    for await (const { records } of log.tail({ from: 0 }))
      read.push(...records.map(({ value }) => String(value)));
  })();
  await writer.append(Buffer.from('before'));
  await expect.poll(() => read, { timeout: 20_000 }).toEqual(['before']);
  const deposed = (await leaderAsSeenBy(1, 'deposed')) ?? 0;
  split.split(deposed);
  const append = () => writer.append(Buffer.from('after')).catch(() => undefined);
  await expect.poll(append, { timeout: 60_000 }).toBeDefined();
  expect(await leaderAsSeenBy(deposed, 'deposed')).toBe(deposed);
  await expect.poll(() => read, { timeout: 20_000 }).toContain('after');
  await log.close();
  await reading;
}, 120_000);

test('killing the leader during appends loses no acknowledged one, and they keep their order', async () => {
  // Waits until a broker that was cut off by an earlier test is a member again.
  await until(
    async () => (await ask(1, (connection) => connection.metadata('failover'))).brokers.length === 3,
  );
  const log = await openKafkaLog(kafka.brokers, {}, { topic: 'failover', partition: 0 });
  onTestFinished(() => log.close());
  const acknowledged: string[] = [];
  let unknown = 0;
  for (let kill = 0; kill < 2; kill++) {
    let leader = 0;
    await until(async () => {
      leader = (await leaderAsSeenBy(kill === 0 ? 1 : 2, 'failover')) ?? 0;
      return leader > 0;
    });
    let killed: Promise<void> | undefined;
    for (let n = 0; n < 100; n++) {
      if (n === 30) killed = kafka.kill(leader);
      const value = `${kill}-${n}`;
      try {
        await log.append(Buffer.from(value));
        acknowledged.push(value);
      } catch (error) {
        if (!(error instanceof AppendUnknown || error instanceof LogUnavailable)) throw error;
        unknown++;
      }
    }
    await killed;
    await kafka.restart(leader);
  }
  const end = await log.end();
  const seen = (await readRecords(log, end)).map(({ value }) => String(value));
  console.log(JSON.stringify({ acknowledged: acknowledged.length, unknown, records: end }));
  expect(seen.filter((value) => acknowledged.includes(value))).toEqual(acknowledged);
  expect(acknowledged.length).toBeGreaterThan(150);
});
