/** Runs the contract of log adapters for the Kafka log, on a real broker. Each test has a topic of its own. */
import { inject } from 'vitest';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { controlLogContract } from '../contract/control-log.ts';

const { brokers } = inject('kafka');
let topics = 0;

controlLogContract('the Kafka log', async () => {
  const topic = `contract-${topics++}`;
  return {
    open: () => openKafkaLog(brokers, {}, { topic, partition: 0 }),
    // There is nothing to remove, because the topic ends with its broker.
    dispose: async () => undefined,
  };
});
