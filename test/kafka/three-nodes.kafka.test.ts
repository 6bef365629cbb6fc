/** The log on three brokers: the contract, replicas that are enough, and a leader that is killed in the middle of appends. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AppendUnknown, LogUnavailable } from '../../shared/log/core/control-log.ts';
import { dialWith } from '../../shared/log/kafka/client.ts';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { controlLogContract, readRecords } from '../contract/control-log.ts';
import { type Kafka, startKafka } from './broker.ts';

let kafka: Kafka;
let topics = 0;
beforeAll(async () => {
  kafka = await startKafka({ nodes: 3 });
});
afterAll(() => kafka?.stop());

controlLogContract('the Kafka log on three brokers', async () => {
  const topic = `contract-${topics++}`;
  return {
    open: () => openKafkaLog(kafka.brokers, {}, { topic, partition: 0 }),
    dispose: async () => undefined,
  };
});

test('topics are made with three replicas, two of which acknowledge', async () => {
  const log = await openKafkaLog(kafka.brokers, {}, { topic: 'headgate.control', partition: 0 });
  await log.append(Buffer.from('x'));
  await log.close();
  const connection = await dialWith({})({ host: '127.0.0.1', port: kafka.port(1) });
  const { partitions } = await connection.metadata('headgate.control');
  expect(partitions[0]!.replicas).toHaveLength(3);
  expect((await connection.topicSettings('headgate.control')).get('min.insync.replicas')).toBe('2');
  connection.destroy();
});

test('the leader killed during appends loses none that was acknowledged, and they keep their order', async () => {
  const log = await openKafkaLog(kafka.brokers, {}, { topic: 'failover', partition: 0 });
  const acknowledged: string[] = [];
  let unknown = 0;
  for (let kill = 0; kill < 2; kill++) {
    const connection = await dialWith({})({ host: '127.0.0.1', port: kafka.port(kill === 0 ? 1 : 2) });
    const { partitions } = await connection.metadata('failover');
    connection.destroy();
    const leader = partitions[0]!.leader;
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
  await log.close();
  console.log(JSON.stringify({ acknowledged: acknowledged.length, unknown, records: end }));
  expect(seen.filter((value) => acknowledged.includes(value))).toEqual(acknowledged);
  expect(acknowledged.length).toBeGreaterThan(150);
});
