/**
 * Required settings of Kafka topics. Missing topics are created. Existing topics with other settings are refused, because a
 * topic that deletes or compacts records would silently lose commits. Messages contain the command that corrects the topic.
 * Longer retention than required is accepted.
 */

import { dayMs } from '../../../schemas/durations.ts';
import { controlTopic } from '../../../schemas/events/commit.ts';
import {
  countersTopic,
  gaugesTopic,
  limitTopicKeepSeconds,
  limitTopicSegmentSeconds,
} from '../../../schemas/records/limits.ts';
import { statusTopic } from '../../../schemas/records/status.ts';
import { usageKeepSeconds, usagePartitions, usageTopic } from '../../../schemas/records/usage.ts';
import type { KafkaConnection, TopicMetadata } from './connection.ts';
import { KafkaFault, TopicMisconfigured } from './errors.ts';

export interface TopicPlan {
  readonly topic: string;
  readonly partitions: number;
  /** Shortest time in ms for which the topic must keep records. -1 means forever. */
  readonly retentionMs: number;
  /** Whether the broker's clock must set record times, even in a topic that an older version created. */
  readonly stampedByBroker: boolean;
  /** Longest time in ms before a new segment begins. It is bounded because expired records are deleted by whole segments. */
  readonly segmentMs?: number;
  /** Whether to fail if the topic is missing instead of creating it. */
  readonly mustExist?: boolean;
}

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

/** Returns the plan for a topic. A topic without a fixed plan has one partition, and keeps records for `keepSeconds`. */
export function topicPlan(topic: string, keepSeconds?: number): TopicPlan {
  const plan = topicPlans.find((candidate) => candidate.topic === topic);
  const retentionMs = keepSeconds === undefined ? -1 : keepSeconds * 1000;
  return plan ?? { topic, partitions: 1, retentionMs, stampedByBroker: false };
}

/** Smallest acceptable maximum message size in bytes. It fits the largest commit with Kafka's framing. */
const recordBytesMin = 1_000_000;
/** Largest acceptable maximum message size in bytes. Readers must hold a whole batch in memory even to skip it. */
const recordBytesMax = 10 * 1024 * 1024;

/** A fault of a topic, with the command that corrects it. */
interface Fault {
  readonly text: string;
  readonly next: string;
  /** Words that introduce the command `next` in an error message. */
  readonly lead?: string;
}

/** A setting, its value in new topics, and a test for acceptable values. Settings that could lose records come first. */
interface Rule {
  readonly name: string;
  readonly wanted: string;
  readonly accepts: (value: string) => boolean;
}

function topicRules(plan: TopicPlan, replicas: number): Rule[] {
  const exactly = (name: string, wanted: string): Rule => ({ name, wanted, accepts: (v) => v === wanted });
  const { retentionMs } = plan;
  const keeps = (value: string) => value === '-1' || (retentionMs !== -1 && Number(value) >= retentionMs);
  return [
    exactly('cleanup.policy', 'delete'),
    { name: 'retention.ms', wanted: String(retentionMs), accepts: keeps },
    exactly('retention.bytes', '-1'),
    exactly('unclean.leader.election.enable', 'false'),
    // Brokers must not compress records, because readers skip batches that a broker has compressed.
    {
      name: 'compression.type',
      wanted: 'producer',
      accepts: (value) => value === 'producer' || value === 'uncompressed',
    },
    {
      name: 'max.message.bytes',
      wanted: '1048588',
      accepts: (value) => Number(value) >= recordBytesMin && Number(value) <= recordBytesMax,
    },
    {
      name: 'message.timestamp.type',
      wanted: 'LogAppendTime',
      // Topics of older versions may have `CreateTime`, with which brokers refuse records whose time is off by an hour.
      accepts: (value) => !plan.stampedByBroker || value === 'LogAppendTime',
    },
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

/** Number of replicas for a new topic: one per broker, at most three. */
function replicaCount(brokerCount: number): number {
  return Math.min(Math.max(brokerCount, 1), 3);
}

/** Creates the topic. Succeeds if another process has just created it. Rejects with `KafkaFault`. */
export async function createTopic(
  connection: KafkaConnection,
  plan: TopicPlan,
  brokerCount: number,
): Promise<void> {
  const replicas = replicaCount(brokerCount);
  const settings = Object.fromEntries(topicRules(plan, replicas).map(({ name, wanted }) => [name, wanted]));
  try {
    await connection.createTopic({ topic: plan.topic, partitions: plan.partitions, replicas, settings });
  } catch (error) {
    const type = error instanceof KafkaFault ? error.type : '';
    if (type === 'TOPIC_AUTHORIZATION_FAILED' || type === 'CLUSTER_AUTHORIZATION_FAILED')
      throw new TopicMisconfigured(
        `topic ${plan.topic} does not exist, and this process may not create it; create it: ${createCommand(plan, replicas)}`,
        { cause: error },
      );
    if (type !== 'TOPIC_ALREADY_EXISTS') throw error;
  }
}

/** Checks an existing topic. Rejects with `KafkaFault`, or with `TopicMisconfigured`, whose message lists all faults. */
export async function checkTopic(
  connection: KafkaConnection,
  plan: TopicPlan,
  metadata: TopicMetadata,
): Promise<void> {
  const faults = await topicFaults(connection, plan, metadata);
  if (faults.length === 0) return;
  throw new TopicMisconfigured(
    faults.map(({ text, next, lead = 'fix it: ' }) => `${text}; ${lead}${next}`).join('; and '),
  );
}

/** Returns all faults of an existing topic. Faults that could lose records come first. Rejects with `KafkaFault`. */
export async function topicFaults(
  connection: KafkaConnection,
  plan: TopicPlan,
  metadata: TopicMetadata,
): Promise<Fault[]> {
  const replicas = Math.min(...metadata.partitions.map((partition) => partition.replicas.length));
  const faults = [
    await settingsFault(connection, plan, replicas),
    replicasFault(plan, metadata, replicas),
    await partitionsFault(connection, plan, metadata, replicas),
  ];
  return faults.filter((fault) => fault !== undefined);
}

async function settingsFault(
  connection: KafkaConnection,
  plan: TopicPlan,
  replicas: number,
): Promise<Fault | undefined> {
  const { topic } = plan;
  const settings = await readSettings(connection, topic);
  if (settings === undefined)
    return {
      text: `this process may not read the settings of topic ${topic}`,
      next:
        'kafka-acls.sh --bootstrap-server BROKERS --add --allow-principal User:NAME ' +
        `--operation DescribeConfigs --topic ${topic}`,
      lead: 'allow it: ',
    };
  const wrong = topicRules(plan, replicas).filter(({ name, accepts }) => !accepts(settings.get(name) ?? ''));
  if (wrong.length === 0) return undefined;
  const found = wrong.map(({ name }) => `${name}=${settings.get(name) ?? ''}`).join(', ');
  const wanted = wrong.map(({ name, wanted }) => `${name}=${wanted}`).join(',');
  return {
    text: `topic ${topic} is set to ${found}`,
    next:
      'kafka-configs.sh --bootstrap-server BROKERS --alter --entity-type topics ' +
      `--entity-name ${topic} --add-config ${wanted}`,
  };
}

/** Returns the topic's settings, or undefined if this process may not read them. */
async function readSettings(
  connection: KafkaConnection,
  topic: string,
): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    return await connection.topicSettings(topic);
  } catch (error) {
    if (!(error instanceof KafkaFault) || error.type !== 'TOPIC_AUTHORIZATION_FAILED') throw error;
    return undefined;
  }
}

async function partitionsFault(
  connection: KafkaConnection,
  plan: TopicPlan,
  metadata: TopicMetadata,
  replicas: number,
): Promise<Fault | undefined> {
  const { topic, partitions } = plan;
  const count = metadata.partitions.length;
  if (count === partitions) return undefined;
  const text = `topic ${topic} has ${count} partitions and needs ${partitions}`;
  if (count < partitions)
    return {
      text,
      next: `kafka-topics.sh --bootstrap-server BROKERS --alter --topic ${topic} --partitions ${partitions}`,
    };
  const again = `delete it and create it again: ${createCommand(plan, replicas)}`;
  const mayBeDeleted = isRepublished(topic) || (await isEmpty(connection, topic, metadata));
  const next = mayBeDeleted
    ? again
    : `it has records, so do not delete it before headgate backup FOLDER has saved them (docs/backup.md); then ${again}`;
  return { text: `${text}, and partitions cannot be removed`, next, lead: '' };
}

/** Whether processes publish the topic's records again, so that deleting the topic does not lose them. */
export function isRepublished(topic: string): boolean {
  return [statusTopic, gaugesTopic, countersTopic].some((name) => name === topic);
}

/** Whether the topic contains no records. Returns false if that cannot be determined. */
async function isEmpty(
  connection: KafkaConnection,
  topic: string,
  { partitions }: TopicMetadata,
): Promise<boolean> {
  try {
    const ends = partitions.map(({ partitionId: partition }) =>
      connection.offset({ topic, partition }, 'end'),
    );
    return (await Promise.all(ends)).every((end) => end === 0);
  } catch (error) {
    if (error instanceof KafkaFault) return false;
    throw error;
  }
}

function replicasFault({ topic }: TopicPlan, metadata: TopicMetadata, replicas: number): Fault | undefined {
  if (replicas >= replicaCount(metadata.brokers.length)) return undefined;
  const nodes = metadata.brokers.map(({ nodeId }) => nodeId).slice(0, 3);
  const partitions = metadata.partitions.map(({ partitionId, replicas: now }) => ({
    topic,
    partition: partitionId,
    replicas: [...now, ...nodes.filter((node) => !now.includes(node))].slice(0, 3),
  }));
  return {
    text: `topic ${topic} has ${replicas} replicas on ${metadata.brokers.length} brokers`,
    next:
      `write '${JSON.stringify({ version: 1, partitions })}' into plan.json, then ` +
      'kafka-reassign-partitions.sh --bootstrap-server BROKERS --reassignment-json-file plan.json --execute',
  };
}

function createCommand(plan: TopicPlan, replicas: number): string {
  const settings = topicRules(plan, replicas).map(({ name, wanted }) => ` --config ${name}=${wanted}`);
  return (
    `kafka-topics.sh --bootstrap-server BROKERS --create --topic ${plan.topic} ` +
    `--partitions ${plan.partitions} --replication-factor ${replicas}${settings.join('')}`
  );
}
