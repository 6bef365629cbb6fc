/** The Kafka log keeps the contract of every adapter, on a real broker; each test has a topic of its own. */
import { afterAll, beforeAll } from 'vitest';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { controlLogContract } from '../contract/control-log.ts';
import { type Kafka, startKafka } from './broker.ts';

let kafka: Kafka;
beforeAll(async () => {
  kafka = await startKafka();
});
afterAll(() => kafka?.stop());

let topics = 0;

controlLogContract('the Kafka log', async () => {
  const topic = `contract-${topics++}`;
  return {
    open: () => openKafkaLog(kafka.brokers, {}, { topic, partition: 0 }),
    // The topic goes with its broker.
    dispose: async () => undefined,
  };
});
