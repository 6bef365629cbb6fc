/** Tests the topic faults that `doctor` reports, each with its fix. Faults that lose records must come first. */
import { expect, test } from 'vitest';
import { controlTopic } from '../../../schemas/events/commit.ts';
import { KafkaCluster } from './cluster.ts';
import type { KafkaConnection, TopicMetadata } from './connection.ts';
import { inspectBrokers } from './inspect.ts';

/** Returns a cluster of one broker with this control log. The other topics do not exist yet. */
function clusterWith({ partitions = 1, start = 0, end = 0, settings = {} }): KafkaCluster {
  const good = { 'cleanup.policy': 'delete', 'retention.ms': '-1', 'retention.bytes': '-1' };
  const more = { 'unclean.leader.election.enable': 'false', 'max.message.bytes': '1048588' };
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
    offset: (_: unknown, which: 'start' | 'end') => Promise.resolve(which === 'start' ? start : end),
    topicSettings: () =>
      Promise.resolve(
        new Map(Object.entries({ ...good, ...more, 'compression.type': 'producer', ...settings })),
      ),
  } as unknown as KafkaConnection;
  return new KafkaCluster(
    [{ host: 'broker', port: 1 }],
    () => Promise.resolve(connection),
    () => undefined,
  );
}
const faultsOf = async (topic: Parameters<typeof clusterWith>[0]) => {
  const { faults } = await inspectBrokers(clusterWith(topic));
  return faults.map(({ text, next }) => `${text} → ${next}`);
};

test('a well-configured topic has no faults', async () => {
  expect(await faultsOf({})).toEqual([]);
});

test('everything wrong with a topic is listed, what loses records first', async () => {
  const settings = {
    'retention.ms': '3600000',
    'compression.type': 'zstd',
    'max.message.bytes': '104857600',
  };
  expect(await faultsOf({ partitions: 3, start: 7, end: 9, settings })).toEqual([
    expect.stringMatching(
      /begins at offset 7, .*→ restore the log from its last backup.*headgate backup ARCHIVE/,
    ),
    expect.stringMatching(
      /is set to retention\.ms=3600000, compression\.type=zstd, max\.message\.bytes=104857600 → kafka-configs\.sh .* retention\.ms=-1,compression\.type=producer,max\.message\.bytes=1048588$/,
    ),
    expect.stringMatching(
      /has 3 partitions and needs 1, and partitions cannot be removed → it has records, so do not delete it before headgate backup/,
    ),
  ]);
});

test('for an empty topic with too many partitions, deleting it is suggested', async () => {
  expect(await faultsOf({ partitions: 3 })).toEqual([
    expect.stringMatching(/partitions cannot be removed → delete it and create it again: kafka-topics\.sh /),
  ]);
});
