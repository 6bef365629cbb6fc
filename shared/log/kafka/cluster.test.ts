/** Tests that a leader is confirmed by as many other replicas as necessary, and that a slow broker does not delay this. */
import { expect, test } from 'vitest';
import { KafkaCluster } from './cluster.ts';
import type { KafkaConnection, TopicMetadata } from './connection.ts';

const place = { topic: 'headgate.control', partition: 0 };

/**
 * Returns a cluster of brokers 1 to n on ports with the same numbers. `named[n]` is the leader that broker n names, or null
 * if broker n never responds.
 */
function clusterWhere(
  named: Readonly<Record<number, number | null>>,
  replicas: readonly number[],
): KafkaCluster {
  const nodes = Object.keys(named).map(Number);
  const brokers = nodes.map((nodeId) => ({ nodeId, host: 'broker', port: nodeId }));
  const connectionTo = (node: number) =>
    ({
      isOpen: true,
      metadata: (): Promise<TopicMetadata> => {
        const leader = named[node];
        if (leader === null || leader === undefined) return new Promise(() => undefined);
        return Promise.resolve({ brokers, errorCode: 0, partitions: [{ partitionId: 0, leader, replicas }] });
      },
    }) as unknown as KafkaConnection;
  const dial = ({ port }: { port: number }) => Promise.resolve(connectionTo(port));
  return new KafkaCluster([{ host: 'broker', port: 1 }], dial, () => undefined);
}

async function confirmed(
  named: Readonly<Record<number, number | null>>,
  replicas: readonly number[],
): Promise<string> {
  const cluster = clusterWhere(named, replicas);
  const leader = await cluster.leader(place);
  return await cluster.confirmLeader(leader, place).then(
    () => `leader ${leader.nodeId}`,
    (error: Error) => error.message,
  );
}

test.each([
  ['one replica needs no witness', { 1: 1 }, [1], 'leader 1'],
  ['a second broker that names the same leader is enough', { 1: 1, 2: 1, 3: 2 }, [1, 2, 3], 'leader 1'],
  ['a broker that never responds delays nothing', { 1: 1, 2: null, 3: 1 }, [1, 2, 3], 'leader 1'],
  [
    'an old leader is not confirmed if the others name another',
    { 1: 1, 2: 3, 3: 3 },
    [1, 2, 3],
    /LEADER_DISPUTED/,
  ],
  ['a broker without a replica is not a witness', { 1: 1, 2: 2, 3: 1 }, [1, 2], /LEADER_DISPUTED/],
  ['without any other replica there is no confirmation', { 1: 1 }, [1, 2, 3], /NO_SECOND_BROKER/],
  [
    'with five replicas, three others must agree',
    { 1: 1, 2: 1, 3: 1, 4: 5, 5: 5 },
    [1, 2, 3, 4, 5],
    /LEADER_DISPUTED/,
  ],
] as const)('%s', async (_claim, named, replicas, expected) => {
  expect(await confirmed(named, replicas)).toMatch(expected);
});

test('after a fault another broker is tried first, so that an old leader does not keep naming itself', async () => {
  const cluster = clusterWhere({ 1: 1, 2: 3, 3: 3 }, [1, 2, 3]);
  const leaders = new Set<number>();
  for (let fault = 0; fault < 3; fault++) {
    leaders.add((await cluster.leader(place)).nodeId);
    cluster.invalidate(place.topic);
  }
  expect(leaders).toEqual(new Set([1, 3]));
});
