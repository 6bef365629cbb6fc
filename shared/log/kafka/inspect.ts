/** What `doctor` reports of the brokers and topics: settings that were changed while processes run, lone and old brokers. */
import type { LogInspection, TopicFault } from '../core/control-log.ts';
import type { KafkaCluster } from './cluster.ts';
import type { KafkaConnection } from './connection.ts';
import { TopicMisconfigured } from './errors.ts';
import { checkTopic, topicPlans } from './topics.ts';

/** The largest version of a fetch that releases know, the newest first: brokers name no release. */
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

/** Rejects with KafkaFault. Topics that are not made yet are left out. */
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
    const fault = await checkTopic(connection, plan, metadata).catch(faultOf);
    if (fault !== undefined) faults.push({ topic: plan.topic, ...fault });
  }
  const found = await Promise.all([...brokers.values()].map((broker) => releaseOf(cluster, broker)));
  const known = found.filter((release) => release !== undefined);
  return {
    faults,
    ...(Number.isFinite(replicas) && { replicas }),
    ...(known.length > 0 && { oldestBroker: Math.min(...known) }),
  };
}

function faultOf(error: unknown): { readonly text: string; readonly next: string } {
  if (!(error instanceof TopicMisconfigured)) throw error;
  // A condition of the command stays with it.
  const [text = '', next = ''] = error.message.split(/; (?:(?:fix|allow) it: |(?=if it is empty, ))/);
  return { text, next };
}

/** undefined of a broker that is away now. */
async function releaseOf(
  cluster: KafkaCluster,
  address: { readonly host: string; readonly port: number },
): Promise<number | undefined> {
  const connection = await cluster.connectionTo(address).catch(() => undefined);
  return connection && releaseBy(connection);
}

/** 0: older than all that are listed. */
function releaseBy({ fetchVersionMax: version }: KafkaConnection): number | undefined {
  if (version === undefined) return undefined;
  return releases.find(([least]) => version >= least)?.[1] ?? 0;
}
