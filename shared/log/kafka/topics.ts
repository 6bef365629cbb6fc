/**
 * The settings that the topics need: creates missing topics, and refuses topics with other settings, because a topic that
 * deletes or compacts records would lose commits without an error. An error contains the command that fixes it, with
 * BROKERS in place of the address. Settings that keep more than needed (a longer retention) are accepted.
 */
import { controlTopic } from '../../../schemas/commit.ts';
import {
  countersTopic,
  gaugesTopic,
  limitTopicKeepSeconds,
  limitTopicSegmentSeconds,
} from '../../../schemas/limits.ts';
import { statusTopic } from '../../../schemas/status.ts';
import { usageKeepSeconds, usagePartitions, usageTopic } from '../../../schemas/usage.ts';
import type { KafkaConnection, TopicMetadata } from './connection.ts';
import { KafkaFault, TopicMisconfigured } from './errors.ts';

export interface TopicPlan {
  readonly topic: string;
  readonly partitions: number;
  /** How long records are kept at least, ms; -1 without limit. */
  readonly retentionMs: number;
  /** Whether the broker's clock stamps the records. */
  readonly stampedByBroker: boolean;
  /** How long a segment is written at most, ms: what is past its time is removed by whole segments. */
  readonly segmentMs?: number;
  /** A missing topic is not created. */
  readonly mustExist?: boolean;
}

const dayMs = 24 * 3600 * 1000;
/** Of all topics of the service. */
export const topicPlans: readonly TopicPlan[] = [
  { topic: controlTopic, partitions: 1, retentionMs: -1, stampedByBroker: false },
  {
    topic: usageTopic,
    partitions: usagePartitions,
    retentionMs: usageKeepSeconds * 1000,
    stampedByBroker: true,
  },
  { topic: statusTopic, partitions: 1, retentionMs: dayMs, stampedByBroker: false },
  ...([gaugesTopic, countersTopic] as const).map((topic) => ({
    topic,
    partitions: 1,
    retentionMs: limitTopicKeepSeconds[topic] * 1000,
    stampedByBroker: true,
    segmentMs: limitTopicSegmentSeconds * 1000,
  })),
];

/** The plan of a topic; one without a plan has one partition, kept for `keepSeconds`. */
export function planOf(topic: string, keepSeconds?: number): TopicPlan {
  const plan = topicPlans.find((candidate) => candidate.topic === topic);
  const retentionMs = keepSeconds === undefined ? -1 : keepSeconds * 1000;
  return plan ?? { topic, partitions: 1, retentionMs, stampedByBroker: false };
}

/** The largest commit, with Kafka's framing. */
const recordBytesMin = 1_000_000;

/** A setting, its value on a new topic, and which values are accepted. */
interface Rule {
  readonly name: string;
  readonly wanted: string;
  readonly accepts: (value: string) => boolean;
}

function rulesFor(plan: TopicPlan, replicas: number): Rule[] {
  const exactly = (name: string, wanted: string): Rule => ({ name, wanted, accepts: (v) => v === wanted });
  const { retentionMs } = plan;
  const keeps = (value: string) => value === '-1' || (retentionMs !== -1 && Number(value) >= retentionMs);
  return [
    exactly('cleanup.policy', 'delete'),
    { name: 'retention.ms', wanted: String(retentionMs), accepts: keeps },
    exactly('retention.bytes', '-1'),
    exactly('unclean.leader.election.enable', 'false'),
    { name: 'max.message.bytes', wanted: '1048588', accepts: (value) => Number(value) >= recordBytesMin },
    ...(plan.stampedByBroker ? [exactly('message.timestamp.type', 'LogAppendTime')] : []),
    ...segmentRules(plan),
    ...(replicas >= 3
      ? [{ name: 'min.insync.replicas', wanted: '2', accepts: (value: string) => Number(value) >= 2 }]
      : []),
  ];
}

function segmentRules({ segmentMs }: TopicPlan): Rule[] {
  if (segmentMs === undefined) return [];
  const accepts = (value: string) => Number(value) > 0 && Number(value) <= segmentMs;
  return [{ name: 'segment.ms', wanted: String(segmentMs), accepts }];
}

/** As many as there are brokers, three at most. */
function replicasFor(brokerCount: number): number {
  return Math.min(Math.max(brokerCount, 1), 3);
}

/** Creates the topic, unless another process created it meanwhile. Rejects with KafkaFault. */
export async function createTopic(
  connection: KafkaConnection,
  plan: TopicPlan,
  brokerCount: number,
): Promise<void> {
  const replicas = replicasFor(brokerCount);
  const settings = Object.fromEntries(rulesFor(plan, replicas).map(({ name, wanted }) => [name, wanted]));
  try {
    await connection.createTopic({ topic: plan.topic, partitions: plan.partitions, replicas, settings });
  } catch (error) {
    const type = error instanceof KafkaFault ? error.type : '';
    if (type === 'TOPIC_AUTHORIZATION_FAILED' || type === 'CLUSTER_AUTHORIZATION_FAILED')
      throw new TopicMisconfigured(
        `topic ${plan.topic} does not exist and may not be created; create it: ${createCommand(plan, replicas)}`,
        { cause: error },
      );
    if (type !== 'TOPIC_ALREADY_EXISTS') throw error;
  }
}

/** Checks an existing topic. Rejects with TopicMisconfigured where its settings differ, and with KafkaFault. */
export async function checkTopic(
  connection: KafkaConnection,
  plan: TopicPlan,
  metadata: TopicMetadata,
): Promise<void> {
  const replicas = Math.min(...metadata.partitions.map((partition) => partition.replicas.length));
  const fault = partitionsFault(plan, metadata, replicas) ?? replicasFault(plan, metadata, replicas);
  if (fault) throw new TopicMisconfigured(fault);
  const settings = await settingsOf(connection, plan);
  const wrong = rulesFor(plan, replicas).filter(({ name, accepts }) => !accepts(settings.get(name) ?? ''));
  if (wrong.length === 0) return;
  const found = wrong.map(({ name }) => `${name}=${settings.get(name) ?? ''}`).join(', ');
  const wanted = wrong.map(({ name, wanted }) => `${name}=${wanted}`).join(',');
  throw new TopicMisconfigured(
    `topic ${plan.topic} is set to ${found}; fix it: kafka-configs.sh --bootstrap-server BROKERS ` +
      `--alter --entity-type topics --entity-name ${plan.topic} --add-config ${wanted}`,
  );
}

async function settingsOf(
  connection: KafkaConnection,
  plan: TopicPlan,
): Promise<ReadonlyMap<string, string>> {
  try {
    return await connection.topicSettings(plan.topic);
  } catch (error) {
    if (!(error instanceof KafkaFault) || error.type !== 'TOPIC_AUTHORIZATION_FAILED') throw error;
    throw new TopicMisconfigured(
      `the settings of topic ${plan.topic} may not be read; allow it: kafka-acls.sh --bootstrap-server BROKERS ` +
        `--add --allow-principal User:NAME --operation DescribeConfigs --topic ${plan.topic}`,
      { cause: error },
    );
  }
}

function partitionsFault(plan: TopicPlan, metadata: TopicMetadata, replicas: number): string | undefined {
  const { topic, partitions } = plan;
  const count = metadata.partitions.length;
  if (count === partitions) return undefined;
  const found = `topic ${topic} has ${count} partitions and needs ${partitions}`;
  if (count < partitions)
    return `${found}; fix it: kafka-topics.sh --bootstrap-server BROKERS --alter --topic ${topic} --partitions ${partitions}`;
  return `${found}, and none can be removed; if it is empty, delete it and create it again: ${createCommand(plan, replicas)}`;
}

function replicasFault({ topic }: TopicPlan, metadata: TopicMetadata, replicas: number): string | undefined {
  if (replicas >= replicasFor(metadata.brokers.length)) return undefined;
  const nodes = metadata.brokers.map(({ nodeId }) => nodeId).slice(0, 3);
  const partitions = metadata.partitions.map(({ partitionId, replicas: now }) => ({
    topic,
    partition: partitionId,
    replicas: [...now, ...nodes.filter((node) => !now.includes(node))].slice(0, 3),
  }));
  return (
    `topic ${topic} has ${replicas} replicas on ${metadata.brokers.length} brokers; fix it: write ` +
    `'${JSON.stringify({ version: 1, partitions })}' into plan.json, then ` +
    'kafka-reassign-partitions.sh --bootstrap-server BROKERS --reassignment-json-file plan.json --execute'
  );
}

function createCommand(plan: TopicPlan, replicas: number): string {
  const settings = rulesFor(plan, replicas).map(({ name, wanted }) => ` --config ${name}=${wanted}`);
  return (
    `kafka-topics.sh --bootstrap-server BROKERS --create --topic ${plan.topic} ` +
    `--partitions ${plan.partitions} --replication-factor ${replicas}${settings.join('')}`
  );
}
