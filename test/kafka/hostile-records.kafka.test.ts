/**
 * Writes hostile records to the topics of a real broker: codecs, compression bombs, broken batches, transactions, copies, and
 * records with another token or of a later version. On an unsigned and on a signed log, and again after a restart, no process
 * may end or grow, every request must be served, all folds must agree, and doctor must name the topic and the offset.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  type Admin,
  Kafka as KafkajsClient,
  logLevel,
  ResourcePatternTypes,
} from 'kafkajs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { controlTopic } from '../../schemas/events/commit.ts';
import { countersTopic, gaugesTopic } from '../../schemas/records/limits.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { usagePartitions, usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { signatureHeader } from '../../shared/log/kafka/record-batches.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import { readRecords } from '../contract/control-log.ts';
import { checksIn, isFault } from '../support/checks.ts';
import {
  type GatewayProcess,
  operatorToken,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { batch, type Codec, codecs, packed, record } from '../support/record-batches.ts';
import { runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';
import { type Kafka, startKafka } from './broker.ts';
import { produceBatch, storedBatches } from './raw-batches.ts';

const topics = [controlTopic, statusTopic, usageTopic, gaugesTopic, countersTopic];
const waitMs = 60_000;
/** Largest resident memory of a process, in bytes. */
const residentBytesMax = 400 * 1024 ** 2;

let kafka: Kafka;
let client: KafkajsClient;
let fleet: ProcessFleet;
let node: SimNode;
let plane: Plane;
let gateways: GatewayProcess[];
let key: string;
let keyId: string;
/** Batches of the control topic, read before the topic's first records are deleted. */
let controlBatches: Buffer[] = [];
let answered = 0;

const servePlane = () =>
  fleet.serve<Plane['ready']>('control-plane', 'cp', ['--allow-unsigned'], {
    HEADGATE_SIGNING_KEY: join(fleet.dir, 'key.pem'),
  });
const serveGateway = (name: string) => fleet.serve<GatewayProcess['ready']>('gateway', name);
const env = () => ({ HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken });

beforeAll(async () => {
  // As long as there is no rule, everyone may do everything. Tests add rules later.
  const authorizer = 'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer';
  const patient = 'broker.session.timeout.ms=30000';
  kafka = await startKafka({ properties: [authorizer, 'allow.everyone.if.no.acl.found=true', patient] });
  client = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING });
  node = await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
  fleet = new ProcessFleet({ logUrl: kafka.url });
  const [pem, pub] = [join(fleet.dir, 'key.pem'), join(fleet.dir, 'key.pub')];
  execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', pem]);
  execFileSync('openssl', ['pkey', '-in', pem, '-pubout', '-out', pub]);
  plane = await servePlane();
  await fleet.admin(plane).apply(smallFleet(node.url));
  gateways = await Promise.all(['gw-1', 'gw-2'].map(serveGateway));
  ({ value: key, id: keyId } = await fleet.admin(plane).createKey(organisation, 'kept'));
  await until(() => isAccepted(key), waitMs);
}, 180_000);
afterAll(async () => {
  await fleet?.close();
  await node?.close();
  await kafka?.stop();
}, 60_000);

/** Returns a record of zeros that is 1 MB when compressed and 1 GB when decompressed. */
function hugeRecord(): Buffer {
  const [part, parts] = [100_000_000, 10];
  const whole = record(0, Buffer.alloc(0));
  // Replaces the record's length and value length, which say that it is empty, with larger ones of five bytes each.
  const body = Buffer.concat([whole.subarray(1, 5), longVarint(part * parts)]);
  const begin = Buffer.concat([longVarint(body.length + part * parts + 1), body]);
  // Several gzip streams in a row are a valid gzip file.
  const zeros = gzipSync(Buffer.alloc(part), { level: 9 });
  return Buffer.concat([
    gzipSync(begin),
    ...Array.from({ length: parts }, () => zeros),
    gzipSync(Buffer.alloc(1)),
  ]);
}

function longVarint(value: number): Buffer {
  const left = value * 2;
  const sevenBits = (n: number) => Math.floor(left / 128 ** n) % 128;
  return Buffer.from([0, 1, 2, 3, 4].map((n) => sevenBits(n) | (n < 4 ? 0x80 : 0)));
}

function emptyRecords(count: number): Buffer {
  return gzipSync(Buffer.concat(Array.from({ length: count }, (_, n) => record(n, Buffer.alloc(0)))));
}

const codecNames = ['gzip', 'snappy', 'lz4', 'zstd'] as const;
const small = record(0, Buffer.from('x'));
const compressed = (codec: Codec) => batch({ attributes: codecs[codec], content: packed(codec, small) });
const [hugeBombContent, emptyBombContent] = [hugeRecord(), emptyRecords(600_000)];
const emptyBomb = () => batch({ attributes: codecs.gzip, count: 600_000, content: emptyBombContent });
const hugeBomb = () => batch({ attributes: codecs.gzip, content: hugeBombContent });
const send = (topic: string, bytes: Buffer, partition = 0) =>
  produceBatch(kafka.brokers[0] ?? '', topic, bytes, partition);

const processes = () => [plane, ...gateways];
async function ask({ ready }: GatewayProcess, value: string): Promise<number> {
  const status = await statusWith(ready.api, value);
  if (status === 200) answered++;
  return status;
}
const isAccepted = async (value: string) =>
  (await Promise.all(gateways.map((gateway) => ask(gateway, value)))).every((status) => status === 200);

function residentPeakBytes(pid: number): number {
  const [, kilobytes = '0'] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}

async function findings(): Promise<string[]> {
  const { out } = await runCli(['doctor', '--only', 'log,gateways', '-o', 'json'], { env: env() });
  return checksIn(out)
    .filter(isFault)
    .map(({ code, object, text }) => `${code} ${object} ${text}`);
}

const found = (text: string) =>
  until(async () => (await findings()).some((finding) => finding.startsWith(text)), waitMs);
const stored = (topic: string, partition = 0) => storedBatches(kafka.brokers[0] ?? '', topic, partition);

async function billedRequests(): Promise<number> {
  const { stdout } = await fleet.cli(['usage', 'show', '--org', organisation, '-o', 'json'], env());
  return Number((JSON.parse(stdout) as { requests: number }).requests);
}

/** Repeatedly sends requests to both gateways during the work. Every response must be a 200. */
async function serving(work: () => Promise<unknown>): Promise<void> {
  let isOver = false;
  const statuses = new Set<number>();
  const asking = (async () => {
    while (!isOver) {
      for (const gateway of gateways) statuses.add(await ask(gateway, key));
      await pause(50);
    }
  })();
  try {
    await work();
  } finally {
    isOver = true;
    await asking;
  }
  expect([...statuses]).toEqual([200]);
}

/**
 * Expects that a command is accepted, that both gateways fold it and have the control plane's digest, and that no process has
 * grown.
 */
async function expectWell(): Promise<void> {
  const created = await fleet.admin(plane).createKey(organisation, 'later');
  await until(() => isAccepted(created.value), waitMs);
  const states = async () =>
    (await fleet.admin(plane).call('GET', '/gateways')).items.map(({ state }) => state).join();
  await until(async () => (await states()) === 'SYNCED,SYNCED', waitMs);
  for (const { child, ready } of processes()) {
    expect(child.exitCode).toBeNull();
    expect(residentPeakBytes(ready.pid)).toBeLessThan(residentBytesMax);
  }
}

async function poisonAll(): Promise<void> {
  for (const topic of topics) {
    for (const codec of codecNames) await send(topic, compressed(codec));
    await send(topic, emptyBomb());
    await send(topic, batch({ content: record(0, Buffer.from('no record of the service')) }));
  }
}

describe.each(['unsigned', 'signed'])('a log that is %s', (kind) => {
  test('batches in every codec and decompression bombs on every topic do not stop the service', async () => {
    if (kind === 'signed') {
      const added = await fleet.cli(['signer', 'add', join(fleet.dir, 'key.pub'), '--force'], env());
      expect(added).toMatchObject({ code: 0 });
    }
    await serving(async () => {
      await poisonAll();
      if (kind === 'signed') for (const topic of [controlTopic, countersTopic]) await send(topic, hugeBomb());
      await expectWell();
    });
    for (const topic of topics) await found(`HG2013 ${topic}`);
    expect(plane.stderr()).toContain('topics.skipped');
    const metrics = await (await fetch(`${plane.ready.metrics}/metrics`)).text();
    expect(metrics).toMatch(/headgate_topic_skipped_batches\{topic="headgate.counters"\} [1-9]/);
  });

  test('copies of every topic, other tokens’ records and later versions change nothing', async () => {
    await serving(async () => {
      for (const topic of topics)
        for (let partition = 0; partition < (topic === usageTopic ? usagePartitions : 1); partition++)
          for (const bytes of (await stored(topic, partition)).slice(-200))
            if (bytes.length < 100_000) await send(topic, bytes, partition);
      for (const topic of [statusTopic, gaugesTopic, countersTopic]) {
        const value = Buffer.from(JSON.stringify({ v: 1, name: 'gw-of-an-old-token', kind: 'gateway' }));
        const mac = new RecordMac(topic, 'gateway-token-before-the-last').of(value);
        await send(topic, batch({ content: record(0, value, [[signatureHeader, mac]]) }));
      }
      for (const topic of topics)
        await send(topic, batch({ content: record(0, Buffer.from(JSON.stringify({ v: 99 }))) }));
      await expectWell();
    });
    await until(async () => (await billedRequests()) === answered, waitMs);
    // Only findings about ignored records (HG2016) may mention the gateway whose token is no longer valid.
    const others = (await findings()).filter((finding) => !finding.startsWith('HG2016'));
    expect(others.join()).not.toContain('gw-of-an-old-token');
  });
});

test('processes killed and restarted on the poisoned topics serve as before', async () => {
  await Promise.all(processes().map((one) => one.end('SIGKILL')));
  plane = await servePlane();
  gateways = await Promise.all(['gw-1', 'gw-2'].map(serveGateway));
  await serving(expectWell);
});

/** Uses a client of its own, because a client that has changed a topic loses track of its brokers. */
async function asAdmin(work: (admin: Admin) => Promise<unknown>): Promise<void> {
  const admin = client.admin();
  await admin.connect();
  try {
    await admin.fetchTopicMetadata();
    await work(admin);
  } finally {
    await admin.disconnect();
  }
}

/** Sends records in a transaction, then commits or aborts it. `undefined` leaves the transaction open. */
async function transaction(
  topic: string,
  values: readonly string[],
  end?: 'commit' | 'abort',
): Promise<void> {
  const transactionalId = `of-a-test-${values.join()}`;
  const producer = client.producer({ transactionalId, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  const open = await producer.transaction();
  await open.send({ topic, messages: values.map((value) => ({ value, partition: 0 })) });
  if (end !== undefined) await open[end]();
  await producer.disconnect();
}

test('all readers read the same during and after transactions, and none waits for their end', async () => {
  const log = await openKafkaLog(kafka.brokers, {}, { topic: 'transactions', partition: 0 });
  const [first, signal] = [[] as string[], AbortSignal.timeout(waitMs)];
  const live = (async () => {
    for await (const { records } of log.tail({ from: 0, signal })) {
      first.push(...records.map(({ offset, value }) => `${offset} ${value}`));
      if (first.at(-1)?.endsWith('last')) return;
    }
  })();
  await transaction('transactions', ['a', 'b'], 'commit');
  await transaction('transactions', ['c', 'd'], 'abort');
  await transaction('transactions', ['e']);
  await log.append(Buffer.from('last'));
  await live;
  expect(first.map((text) => text.split(' ')[1])).toEqual(['a', 'b', 'c', 'd', 'e', 'last']);
  const later = await readRecords(log, first.length);
  expect(later.map(({ offset, value }) => `${offset} ${value}`)).toEqual(first);
  await log.close();
  await serving(async () => {
    for (const topic of topics) await transaction(topic, ['x', topic], 'commit');
    for (const topic of topics) await transaction(topic, ['y', topic], 'abort');
    for (const topic of topics) await transaction(topic, ['z', topic]);
    await expectWell();
  });
});

test('topics that can be appended to but not read are named, and no gateway counts as forgotten', async () => {
  const unread = [statusTopic, countersTopic];
  const rules = unread.flatMap((resourceName) =>
    [
      { operation: AclOperationTypes.ALL, permissionType: AclPermissionTypes.ALLOW },
      { operation: AclOperationTypes.READ, permissionType: AclPermissionTypes.DENY },
    ].map((rule) => ({
      ...rule,
      ...{ resourceType: AclResourceTypes.TOPIC, resourceName, principal: 'User:*', host: '*' },
      resourcePatternType: ResourcePatternTypes.LITERAL,
    })),
  );
  await asAdmin((admin) => admin.createAcls({ acl: rules }));
  await serving(async () => {
    for (const topic of unread) await found(`HG2012 ${topic} it could not be read for`);
    const states = async () =>
      (await fleet.admin(plane).call('GET', '/gateways')).items.map(({ state }) => state).join();
    await until(async () => (await states()) === 'STALE,STALE', waitMs);
    // A replica that cannot read the gateways' reports must not judge any gateway.
    const { out } = await runCli(['doctor', '--only', 'gateways'], { env: env() });
    expect(out).not.toMatch(/HG4002|gateway forget/);
    for (const code of ['topics.reachability', 'status.reachability', 'counters.reachability'])
      expect(plane.stderr()).toContain(code);
    expect(plane.stderr()).toContain('TOPIC_AUTHORIZATION_FAILED');
    // The replica itself still appends to the topic, which must not hide the fault.
    for (let n = 0; n < 5; n++)
      expect((await findings()).join()).toContain(`HG2012 ${countersTopic} it could not be read`);
  });
  await asAdmin((admin) => admin.deleteAcls({ filters: rules }));
  await until(async () => !(await findings()).join().includes('HG2012'), waitMs);
  await serving(expectWell);
});

test('readers continue after records are deleted, and doctor reports those of the control log', async () => {
  const deleteUpTo = (topic: string, partition: number, offset: string) =>
    asAdmin((admin) => admin.deleteTopicRecords({ topic, partitions: [{ partition, offset }] }));
  controlBatches = (await stored(controlTopic)).filter(({ length }) => length < 100_000);
  await serving(async () => {
    for (const topic of [statusTopic, gaugesTopic, countersTopic]) await deleteUpTo(topic, 0, '-1');
    for (let partition = 0; partition < usagePartitions; partition++)
      await deleteUpTo(usageTopic, partition, '-1');
    await expectWell();
    await deleteUpTo(controlTopic, 0, '1');
    await found('HG2009 headgate.control records of topic headgate.control were deleted');
    await expectWell();
  });
  await until(async () => (await billedRequests()) === answered, waitMs);
  await expect(fleet.serve('control-plane', 'cp-new')).rejects.toThrow(/begins at offset 1/);
});

test('an older copy of the control log before the whole log gives the same state', async () => {
  await Promise.all(processes().map((one) => one.end('SIGKILL')));
  await asAdmin(async (admin) => {
    await admin.deleteTopics({ topics: [controlTopic] });
    await until(async () => !(await admin.listTopics()).includes(controlTopic));
  });
  await (await openKafkaLog(kafka.brokers, {}, { topic: controlTopic, partition: 0 })).close();
  const older = controlBatches.slice(0, controlBatches.length / 2);
  for (const bytes of [...older, ...controlBatches]) await send(controlTopic, bytes);
  const copied = await fleet.serve<Plane['ready']>('control-plane', 'cp-copy', [], {
    HEADGATE_SIGNING_KEY: join(fleet.dir, 'key.pem'),
  });
  expect(await fleet.admin(copied).activeKeys()).toContain(keyId);
});
