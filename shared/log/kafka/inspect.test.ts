/** What `doctor` reports of a topic: the fault and the command that fixes it apart. */
import { expect, test } from 'vitest';
import { controlTopic } from '../../../schemas/commit.ts';
import { KafkaCluster } from './cluster.ts';
import type { KafkaConnection, TopicMetadata } from './connection.ts';
import { inspectBrokers } from './inspect.ts';

/** One broker whose control log has so many partitions; the other topics are not made yet. */
function clusterWith(partitions: number): KafkaCluster {
  const connection = {
    isOpen: true,
    metadata: (topic: string): Promise<TopicMetadata> =>
      Promise.resolve({
        brokers: [{ nodeId: 1, host: 'broker', port: 1 }],
        errorCode: 0,
        partitions: Array.from({ length: topic === controlTopic ? partitions : 0 }, (_, partitionId) => ({
          partitionId,
          leader: 1,
          replicas: [1],
        })),
      }),
  } as unknown as KafkaConnection;
  return new KafkaCluster(
    [{ host: 'broker', port: 1 }],
    () => Promise.resolve(connection),
    () => undefined,
  );
}

test('a topic with too many partitions has its command as the next step, with the condition of it', async () => {
  const { faults } = await inspectBrokers(clusterWith(3));
  expect(faults).toHaveLength(1);
  expect(faults[0]).toMatchObject({
    topic: controlTopic,
    text: 'topic headgate.control has 3 partitions and needs 1, and none can be removed',
    next: expect.stringMatching(/^if it is empty, delete it and create it again: kafka-topics\.sh /),
  });
});
