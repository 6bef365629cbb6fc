/** The Kafka log fulfils every adapter's contract on a real broker. Each test has its own topic. */
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
