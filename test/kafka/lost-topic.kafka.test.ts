/**
 * Tests a control topic that was compacted, recreated, emptied, or replaced with another log. Control plane and gateway must
 * refuse it with an error that names the cause, and must not serve anything from it. With the `serve` policy, the last good
 * state keeps answering.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Admin, Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../control-plane/main.ts';
import { type RunningGateway, startGateway } from '../../data-plane/main.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { demoFleet } from '../../tools/dev/demo-fleet.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { ChainWriter } from '../support/commits.ts';
import { gatewayAlone, nobodyThere, operatorToken, planeSettings } from '../support/fleet.ts';
import { statusWith } from '../support/process-fleet.ts';
import { type Kafka, startKafka } from './broker.ts';

const topic = 'headgate.control';
const dir = mkdtempSync(join(tmpdir(), 'headgate-lost-topic-'));
let kafka: Kafka;
let controlPlane: ControlPlane;
let gateway: RunningGateway;
let key: string;

const controlPlaneOn = () => startControlPlane(planeSettings(dir, kafka.url));
const gatewayOn = (name: string) =>
  startGateway({ ...gatewayAlone(dir, kafka.url, name), whenStale: 'serve' });
const admin = () => new DevAdmin(controlPlane.admin, operatorToken);

beforeAll(async () => {
  kafka = await startKafka();
  controlPlane = await controlPlaneOn();
  const fleet = demoFleet(nobodyThere);
  await admin().apply(fleet);
  key = (await admin().createKey(fleet.organisations![0]!.id, 'kept')).value;
  gateway = await gatewayOn('gateway-1');
}, 180_000);
afterAll(async () => {
  await gateway?.close();
  await controlPlane?.close();
  await kafka?.stop();
  rmSync(dir, { recursive: true, force: true });
}, 60_000);

/** Returns the status of a request with this key. It is 404 if the key is accepted, because the model does not exist. */
const statusOf = (value: string): Promise<number> =>
  statusWith(gateway.api, value, { model: 'unknown-model' });

async function checks(): Promise<string> {
  return await (await fetch(`${gateway.metrics}/readyz?verbose`)).text();
}

/** Uses a new client each time, because a client that has seen a topic disappear loses track of its brokers. */
async function asAdmin(work: (client: Admin) => Promise<unknown>): Promise<void> {
  const client = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
  await client.connect();
  try {
    await client.fetchTopicMetadata();
    await work(client);
  } finally {
    await client.disconnect();
  }
}

async function deleteTopic(): Promise<void> {
  await asAdmin(async (client) => {
    await client.deleteTopics({ topics: [topic] });
    await expect.poll(() => client.listTopics(), { timeout: 20_000 }).not.toContain(topic);
  });
}

const configured = (policy: string) => {
  const configEntries = [
    { name: 'cleanup.policy', value: policy },
    { name: 'retention.ms', value: '-1' },
  ];
  return asAdmin((client) =>
    client.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries }] }),
  );
};

test('a compacted topic is refused by control plane and gateway at their start, with the repairing command', async () => {
  await gateway.close();
  await controlPlane.close();
  await configured('compact');
  const refusal = /cleanup\.policy=compact; fix it: kafka-configs\.sh .*cleanup\.policy=delete/;
  await expect.poll(() => controlPlaneOn().catch((error) => error.message)).toMatch(refusal);
  await expect(gatewayOn('gateway-1')).rejects.toThrow(refusal);
  await configured('delete');
  const started = async () => {
    controlPlane = await controlPlaneOn();
    return controlPlane.admin;
  };
  await expect.poll(started, { timeout: 20_000 }).toContain('http');
  gateway = await gatewayOn('gateway-1');
  expect(await statusOf(key)).toBe(404);
}, 90_000);

test('a topic recreated with another log is refused while running and at a start, and nothing is served from it', async () => {
  await deleteTopic();
  const configEntries = [{ name: 'retention.ms', value: '-1' }];
  await asAdmin((client) =>
    client.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }], waitForLeaders: true }),
  );
  const foreign = await openLog(kafka.url, { topic });
  await foreign.append(new ChainWriter({ log: 'foreign' }).open().value);
  await expect.poll(checks, { timeout: 40_000 }).toContain('this is log foreign');
  expect(await checks()).not.toContain('quarantined');
  expect(await statusOf(key)).toBe(404);
  await expect(admin().createKey('acme', 'lost')).rejects.toThrow(/headgate\.control/);
  await controlPlane.close();
  await gateway.close();
  await expect(controlPlaneOn()).rejects.toThrow(
    /this is log foreign, .*restore the log from its last backup/,
  );
  gateway = await gatewayOn('gateway-1');
  await expect.poll(checks, { timeout: 20_000 }).toContain('this is log foreign');
  expect(await statusOf(key)).toBe(404);
  await foreign.close();
}, 120_000);

test('a topic whose records were deleted is refused', async () => {
  await asAdmin((client) =>
    client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] }),
  );
  await expect(controlPlaneOn()).rejects.toThrow(/begins at offset 1|ends before commit|log \(empty\)/);
  expect(await statusOf(key)).toBe(404);
}, 60_000);
