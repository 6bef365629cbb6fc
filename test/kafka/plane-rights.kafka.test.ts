/**
 * Tests a fleet on a broker that grants control planes and gateways exactly the rights listed in docs/kafka.md. The fleet
 * must serve, bill, confirm a revocation and have no findings, and the gateways' user must not be able to write a command.
 */
import { readFileSync } from 'node:fs';
import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  type Admin,
  Kafka as KafkajsClient,
  logLevel,
  ResourcePatternTypes,
} from 'kafkajs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { controlTopic } from '../../schemas/events/commit.ts';
import { countersTopic } from '../../schemas/records/limits.ts';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import { checksIn } from '../support/checks.ts';
import {
  type GatewayProcess,
  model,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { type Kafka, startKafka } from './broker.ts';

const waitMs = 60_000;
const password = (username: string): string => `password-of-${username}`;
const sasl = (username: string) => ({ mechanism: 'plain', username, password: password(username) }) as const;
const envOf = (username: string) => ({
  HEADGATE_KAFKA_SASL_MECHANISM: 'plain',
  HEADGATE_KAFKA_SASL_USERNAME: username,
  HEADGATE_KAFKA_SASL_PASSWORD: password(username),
});
const operations: Readonly<Record<string, AclOperationTypes>> = {
  Read: AclOperationTypes.READ,
  Write: AclOperationTypes.WRITE,
  DescribeConfigs: AclOperationTypes.DESCRIBE_CONFIGS,
};

const page = readFileSync(new URL('../../docs/kafka.md', import.meta.url), 'utf8');
const [, section = ''] = page.split('### Rights of each plane\n');
/** For each topic, the rights that docs/kafka.md lists for control planes and for gateways. */
const rows = [
  ...section.split('\n## ')[0]!.matchAll(/^\| `(headgate\.\w+)` \| ([^|]+) \| ([^|]+) \|$/gm),
].map(([, topic = '', planes = '', gateways = '']) => ({ topic, planes, gateways }));
const rightsIn = (cell: string): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, right = '']) => right);

const rule = (name: string, resourceName: string, operation: AclOperationTypes) => ({
  ...{ resourceType: AclResourceTypes.TOPIC, resourceName, principal: `User:${name}`, host: '*', operation },
  ...{ permissionType: AclPermissionTypes.ALLOW, resourcePatternType: ResourcePatternTypes.LITERAL },
});

async function asAdmin(change: (admin: Admin) => Promise<unknown>): Promise<void> {
  const brokers = [...kafka.brokers];
  const admin = new KafkajsClient({ brokers, logLevel: logLevel.NOTHING, sasl: sasl('admin') }).admin();
  await admin.connect();
  await change(admin).finally(() => admin.disconnect());
}

let kafka: Kafka;
let fleet: ProcessFleet;
let node: SimNode;
let plane: Plane;
let gateway: GatewayProcess;

beforeAll(async () => {
  const users = ['admin', 'planes', 'gateways'].map((name) => `user_${name}="${password(name)}"`).join(' ');
  const login = 'org.apache.kafka.common.security.plain.PlainLoginModule required';
  kafka = await startKafka({
    settings: { sasl: sasl('admin') },
    properties: [
      'listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT',
      'sasl.enabled.mechanisms=PLAIN',
      'sasl.mechanism.inter.broker.protocol=PLAIN',
      `listener.name.plaintext.plain.sasl.jaas.config=${login} username="admin" password="${password('admin')}" ${users};`,
      'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users=User:admin;User:ANONYMOUS',
      'broker.session.timeout.ms=30000',
    ],
  });
  const rules = rows.flatMap(({ topic, planes, gateways }) => [
    // The first process of a new fleet, a control plane, creates the topics.
    rule('planes', topic, AclOperationTypes.CREATE),
    ...rightsIn(planes).map((right) => rule('planes', topic, operations[right]!)),
    ...rightsIn(gateways).map((right) => rule('gateways', topic, operations[right]!)),
  ]);
  await asAdmin((admin) => admin.createAcls({ acl: rules }));
  node = await startSimNode({ models: [model], tokensPerSecond: 0 });
  fleet = new ProcessFleet({ logUrl: kafka.url });
  plane = await fleet.serve('control-plane', 'cp', [], envOf('planes'));
  await fleet.admin(plane).apply(smallFleet(node.url));
  gateway = await fleet.serve('gateway', 'gw', [], envOf('gateways'));
}, 180_000);
afterAll(async () => {
  await fleet?.close();
  await node?.close();
  await kafka?.stop();
}, 60_000);

test('the page has a row for each topic', () => {
  expect(rows.map(({ topic }) => topic)).toEqual(
    ['control', 'usage', 'status', 'gauges', 'counters'].map((name) => `headgate.${name}`),
  );
});

test('a fleet serves, bills and confirms with only the rights on the page', async () => {
  const admin = fleet.admin(plane);
  const { id, value } = await admin.createKey(organisation, 'one');
  await until(async () => (await statusWith(gateway.ready.api, value)) === 200, waitMs);
  const usage = async () => JSON.stringify(await admin.run('usage.get', { organisation }));
  await until(async () => /"requests":[1-9]/.test(await usage()), waitMs);
  const env = { HEADGATE_ADMIN: plane.ready.admin };
  const revoked = await fleet.cli(['key', 'revoke', id, '--yes', '--wait'], env);
  expect([revoked.code, revoked.stderr]).toEqual([0, expect.anything()]);
  let found = '';
  await until(async () => {
    const { stdout } = await fleet.cli(
      ['doctor', '--only', 'log,control-planes,gateways,limits', '-o', 'json'],
      env,
    );
    found = checksIn(stdout)
      .flatMap(({ level, code, text }) => (level === 'fail' ? [`${code} ${text}`] : []))
      .join();
    return found === '';
  }, waitMs).catch((error: unknown) => {
    throw new Error(`${found}`, { cause: error });
  });
  for (const process of [plane, gateway]) expect(process.stderr()).not.toContain('AUTHORIZATION_FAILED');
}, 180_000);

test('before a start, doctor finds brokers and topics as each plane’s user, and not with a wrong password', async () => {
  const pre = async (more: object) => {
    const { stdout } = await fleet.cli(['doctor', '--pre', '-o', 'json'], { HEADGATE_ADMIN: '', ...more });
    return checksIn(stdout)
      .filter(({ code }) => code === 'HG2001' || code === 'HG2009')
      .map(({ code, level }) => `${code} ${level}`);
  };
  expect(await pre(envOf('planes'))).toEqual(['HG2001 ok', 'HG2009 ok']);
  expect(await pre(envOf('gateways'))).toEqual(['HG2001 ok', 'HG2009 ok']);
  expect(await pre({ ...envOf('gateways'), HEADGATE_KAFKA_SASL_PASSWORD: 'another' })).toEqual([
    'HG2001 fail',
  ]);
});

async function append(name: string, topic: string): Promise<void> {
  const log = await openKafkaLog(kafka.brokers, { sasl: sasl(name) }, { topic, partition: 0 });
  try {
    await log.append(Buffer.from('a record'));
  } finally {
    await log.close();
  }
}

test('the gateways’ user cannot write a command', async () => {
  await expect(append('gateways', controlTopic)).rejects.toThrow(/AUTHORIZATION/);
});

test('the control planes’ user may write silent gateways’ counters, which happens each hour', async () => {
  await append('planes', countersTopic);
});

test('after a refused command, doctor finds a control topic that can be read but not written', async () => {
  const env = { HEADGATE_ADMIN: plane.ready.admin };
  const create = () => fleet.cli(['org', 'create', 'elm', '--name', 'Elm', '--tier', 'Wide'], env);
  const found = async () => {
    const checks = checksIn((await fleet.cli(['doctor', '--only', 'log', '-o', 'json'], env)).stdout);
    return checks.find(({ code }) => code === 'HG2017');
  };
  const write = rule('planes', controlTopic, AclOperationTypes.WRITE);
  expect(await found()).toMatchObject({ level: 'ok' });
  await asAdmin((admin) => admin.deleteAcls({ filters: [write] }));
  expect((await create()).code).not.toBe(0);
  expect(await found()).toMatchObject({
    level: 'fail',
    text: expect.stringContaining('TOPIC_AUTHORIZATION_FAILED'),
  });
  await asAdmin((admin) => admin.createAcls({ acl: [write] }));
  await until(async () => (await create()).code === 0, waitMs);
  expect(await found()).toMatchObject({ level: 'ok' });
}, 120_000);
