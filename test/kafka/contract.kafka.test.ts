/** The Kafka log keeps the contract of every adapter, on a real broker; each test has a topic of its own. */
import { inject } from 'vitest';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { controlLogContract } from '../contract/control-log.ts';

const { brokers } = inject('kafka');
let topics = 0;

controlLogContract('the Kafka log', async () => {
  const topic = `contract-${topics++}`;
  return {
    open: () => openKafkaLog(brokers, {}, { topic, partition: 0 }),
    // The topic ends with its broker.
    dispose: async () => undefined,
  };
});
