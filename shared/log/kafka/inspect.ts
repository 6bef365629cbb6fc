/** Collects facts about brokers and topics for `headgate doctor`: changed settings, single replicas and old brokers. */
import { controlTopic } from '../../../schemas/events/commit.ts';
import { type LogInspection, nextStepForCutLog, type TopicFault } from '../core/control-log.ts';
import type { KafkaCluster } from './cluster.ts';
import type { KafkaConnection } from './connection.ts';
import { topicFaults, topicPlans } from './topics.ts';

/** Releases by the latest fetch version that they support, newest first. Brokers do not report their release directly. */
const releases: readonly (readonly [fetchVersion: number, release: number])[] = [
  [18, 4.1],
  [17, 3.9],
  [16, 3.7],
  [15, 3.5],
  [13, 3.1],
  [12, 2.7],
  [11, 2.3],
  [10, 2.1],
];

/** Inspects all brokers and all existing topics. Rejects with `KafkaFault`. */
export async function inspectBrokers(cluster: KafkaCluster): Promise<LogInspection> {
  const connection = await cluster.anyBroker();
  const faults: TopicFault[] = [];
  const brokers = new Map<string, { readonly host: string; readonly port: number }>();
  let replicas = Number.POSITIVE_INFINITY;
  for (const plan of topicPlans) {
    const metadata = await connection.metadata(plan.topic);
    for (const broker of metadata.brokers) brokers.set(`${broker.host}:${broker.port}`, broker);
    if (metadata.errorCode !== 0 || metadata.partitions.length === 0) continue;
    for (const partition of metadata.partitions) replicas = Math.min(replicas, partition.replicas.length);
    const { topic } = plan;
    if (topic === controlTopic) faults.push(...(await removalFault(cluster, topic)));
    for (const { text, next } of await topicFaults(connection, plan, metadata))
      faults.push({ topic, text, next });
  }
  const found = await Promise.all([...brokers.values()].map((broker) => findRelease(cluster, broker)));
  const known = found.filter((release) => release !== undefined);
  return {
    faults,
    ...(Number.isFinite(replicas) && { replicas }),
    ...(known.length > 0 && { oldestBroker: Math.min(...known) }),
  };
}

/** Reports that records of the topic were deleted, because otherwise only a process that starts later would notice it. */
async function removalFault(cluster: KafkaCluster, topic: string): Promise<TopicFault[]> {
  const target = { topic, partition: 0 };
  const leader = await cluster.connectionTo(await cluster.leader(target));
  const start = await leader.offset(target, 'start');
  if (start === 0) return [];
  const text = `records of topic ${topic} were deleted: it begins at offset ${start}, so no new process can read it`;
  const next = `restore the log from its last backup: see "Restore a lost log" in docs/backup.md; ${nextStepForCutLog}`;
  return [{ topic, text, next }];
}

/** Returns a broker's release, or undefined if the broker cannot be reached. */
async function findRelease(
  cluster: KafkaCluster,
  address: { readonly host: string; readonly port: number },
): Promise<number | undefined> {
  const connection = await cluster.connectionTo(address).catch(() => undefined);
  return connection && toRelease(connection);
}

/** Returns the broker's release, or 0 if it is older than every listed one. */
function toRelease({ fetchVersionMax: version }: KafkaConnection): number | undefined {
  if (version === undefined) return undefined;
  return releases.find(([least]) => version >= least)?.[1] ?? 0;
}
