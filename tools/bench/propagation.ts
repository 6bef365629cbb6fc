// Measures how long a revocation takes to apply: from its acknowledgement by the admin API until both gateways refuse the
// key. Both gateways are polled without a pause to detect this. The bench runs on one broker and on three. As a reference, a
// bare kafkajs producer and consumer send records of the same size over the same brokers under the same load.
// BENCH_REVOCATIONS sets the number of revocations; BENCH_BROKERS=1 or 3 selects one setup.

import { setTimeout as pause } from 'node:timers/promises';
import kafkajs, { type KafkaMessage } from 'kafkajs';
import { ChaosFleet, createKey, type Gateway, type Key, type Plane } from '../../test/chaos/fleet.ts';
import { type Kafka, startKafka } from '../../test/kafka/broker.ts';
import { until } from '../../test/support/until.ts';
import { Connection, percentile, requestBytes } from './support/load.ts';

const { Kafka: KafkajsClient, logLevel } = kafkajs;
const count = Number(process.env['BENCH_REVOCATIONS'] ?? 1000);
const warmUps = 50;
const aimMilliseconds = { 1: 50, 3: 150 } as const;

interface Spread {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

function spread(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  const at = (p: number) => Math.round(percentile(sorted, p) * 100) / 100;
  return { p50: at(50), p99: at(99), max: at(100) };
}

/** Sends one request after another to a gateway, without a pause, and reports when a key is refused. */
class Poller {
  readonly #port: number;
  readonly #connection: Connection;
  polls = 0;

  constructor(gateway: Gateway) {
    this.#port = Number(new URL(gateway.ready.api).port);
    this.#connection = new Connection(this.#port);
  }

  /** Calls `onAccepted` after the first accepted request. Resolves to the time of the first refusal after that. */
  async untilRefused(key: Key, onAccepted: () => void): Promise<number> {
    // With an accepted key, the response is 404, because the model does not exist. With a refused key, it is 401.
    const bytes = requestBytes({
      port: this.#port,
      path: '/v1/chat/completions',
      host: '127.0.0.1',
      headers: { Authorization: `Bearer ${key.value}` },
      body: JSON.stringify({ model: 'absent', messages: [{ role: 'user', content: 'x' }] }),
    });
    let accepted = false;
    for (;;) {
      const status = await this.#connection.send(bytes);
      this.polls++;
      if (status === 404 && !accepted) {
        accepted = true;
        onAccepted();
      }
      if (status === 401 && accepted) return performance.now();
      if (status !== 404 && status !== 401) throw new Error(`a gateway answered ${status}`);
    }
  }

  close(): void {
    this.#connection.close();
  }
}

async function revocations(plane: Plane, gateways: readonly Gateway[]) {
  const pollers = gateways.map((gateway) => new Poller(gateway));
  const toAck: number[] = [];
  const toRefused: number[] = [];
  const inAll: number[] = [];
  for (let n = 0; n < count + warmUps; n++) {
    const key = await createKey(plane);
    let waiting = pollers.length;
    let onAllAccept: () => void = () => undefined;
    const allAccept = new Promise<void>((resolve) => {
      onAllAccept = resolve;
    });
    const refused = pollers.map((poller) =>
      poller.untilRefused(key, () => {
        waiting--;
        if (waiting === 0) onAllAccept();
      }),
    );
    await allAccept;
    const sentMs = performance.now();
    await plane.admin.call('POST', `/keys/${key.id}/revoke`);
    const acknowledgedMs = performance.now();
    const lastMs = Math.max(...(await Promise.all(refused)));
    if (n < warmUps) continue;
    toAck.push(acknowledgedMs - sentMs);
    // The difference may be negative, because a gateway may refuse the key before the acknowledgement has arrived here.
    toRefused.push(Math.max(0, lastMs - acknowledgedMs));
    inAll.push(lastMs - sentMs);
    // A random pause prevents the bench from running in phase with the processes' timers.
    if (n % 10 === 0) await pause(Math.random() * 20);
  }
  for (const poller of pollers) poller.close();
  return {
    revocations: count,
    polls: pollers.reduce((sum, { polls }) => sum + polls, 0),
    acknowledgedToRefused: spread(toRefused),
    sentToAcknowledged: spread(toAck),
    sentToRefused: spread(inAll),
  };
}

/** Measures a bare kafkajs producer and consumer, with one record at a time. */
async function reference(kafka: Kafka, bytes: number) {
  const client = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING });
  const topic = 'reference';
  const admin = client.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  await admin.disconnect();
  const producer = client.producer({ allowAutoTopicCreation: false });
  const consumer = client.consumer({ groupId: 'reference' });
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let onMessage: (message: KafkaMessage) => void = () => undefined;
  await consumer.run({
    eachMessage: async ({ message }) => onMessage(message),
  });
  const toConsumed: number[] = [];
  const acknowledgedToConsumed: number[] = [];
  const value = Buffer.alloc(bytes, 'x');
  for (let n = 0; n < count + warmUps; n++) {
    const consumed = new Promise<number>((resolve) => {
      onMessage = () => resolve(performance.now());
    });
    const sentMs = performance.now();
    await producer.send({ topic, acks: -1, messages: [{ value, partition: 0 }] });
    const acknowledgedMs = performance.now();
    const consumedMs = await consumed;
    if (n < warmUps) continue;
    toConsumed.push(consumedMs - sentMs);
    acknowledgedToConsumed.push(Math.max(0, consumedMs - acknowledgedMs));
  }
  await consumer.disconnect();
  await producer.disconnect();
  return {
    bytes,
    acknowledgedToConsumed: spread(acknowledgedToConsumed),
    sentToConsumed: spread(toConsumed),
  };
}

/** Runs the reference while both gateways receive requests without a pause, as they do during the revocations. */
async function referenceUnderLoad(kafka: Kafka, bytes: number, plane: Plane, gateways: readonly Gateway[]) {
  const key = await createKey(plane);
  const pollers = gateways.map((gateway) => new Poller(gateway));
  const polling = pollers.map((poller) => poller.untilRefused(key, () => undefined));
  const figures = await reference(kafka, bytes);
  await plane.admin.call('POST', `/keys/${key.id}/revoke`);
  await Promise.all(polling);
  for (const poller of pollers) poller.close();
  return figures;
}

async function measure(nodes: 1 | 3) {
  const kafka = await startKafka({ nodes });
  const fleet = new ChaosFleet(kafka);
  try {
    const plane = await fleet.plane('plane');
    await fleet.furnish(plane);
    const gateways = await Promise.all([fleet.gateway('gateway-1'), fleet.gateway('gateway-2')]);
    await until(async () => (await plane.admin.call('GET', '/gateways')).items.length === 2);
    const ours = await revocations(plane, gateways);
    // Size of a revocation's record in the log, in bytes.
    const bytes = 460;
    return { ours, reference: await referenceUnderLoad(kafka, bytes, plane, gateways) };
  } finally {
    await fleet.close();
    await kafka.stop();
  }
}

const wanted = ([1, 3] as const).filter((nodes) =>
  (process.env['BENCH_BROKERS'] ?? '1,3').includes(`${nodes}`),
);
const figures: Record<string, Awaited<ReturnType<typeof measure>>> = {};
for (const nodes of wanted) figures[`brokers${nodes}`] = await measure(nodes);
const rows: Record<string, Spread> = {};
for (const nodes of wanted) {
  const { ours, reference } = figures[`brokers${nodes}`]!;
  rows[`${nodes} broker(s): acknowledged → refused on both`] = ours.acknowledgedToRefused;
  rows[`${nodes} broker(s): sent → acknowledged`] = ours.sentToAcknowledged;
  rows[`${nodes} broker(s): sent → refused on both`] = ours.sentToRefused;
  rows[`${nodes} broker(s): bare kafkajs, acknowledged → consumed`] = reference.acknowledgedToConsumed;
  rows[`${nodes} broker(s): bare kafkajs, sent → consumed`] = reference.sentToConsumed;
  const aim = aimMilliseconds[nodes];
  if (ours.acknowledgedToRefused.p99 >= aim) process.exitCode = 1;
}
console.table(rows);
console.log(JSON.stringify({ bench: 'propagation', unit: 'ms', ...figures }));
