/**
 * A Kafka partition, shared by its readers and its appender. It checks that the topic has the right settings and is still the
 * log that was opened. Kafka reports no error for a re-created topic, so the first record is compared after every fault.
 */
import { sleep } from '../../runtime/retry.ts';
import { LogReplaced, LogUnavailable } from '../core/control-log.ts';
import type { KafkaCluster, Leader } from './cluster.ts';
import type { KafkaConnection, TopicPartition } from './connection.ts';
import { isPermanent, KafkaFault, TopicMisconfigured } from './errors.ts';
import { parseBatches } from './record-batches.ts';
import { type RetryPolicy, retryUntilDeadline } from './retry.ts';
import { checkTopic, createTopic, isRepublished, type TopicPlan } from './topics.ts';

/** Time in ms that a new leader may need until its end includes everything that the old leader acknowledged. */
const settleMs = 1000;

export interface Range {
  readonly start: number;
  readonly end: number;
}

/** First remaining record of the partition at the last check. */
interface FirstRecord {
  readonly offset: number;
  /** Identity of the batch that contains the record. */
  readonly identity: string;
}

export class KafkaPartition {
  readonly cluster: KafkaCluster;
  readonly target: TopicPartition;
  readonly name: string;
  readonly #plan: TopicPlan;
  #first: FirstRecord | undefined;
  /** Offset after the last record that this process has read or appended. */
  #endSeen = 0;
  /** Offset after the last record whose append was acknowledged to this process. */
  #endAcknowledged = 0;
  /** Connection on which the last check succeeded. */
  #checkedOn: KafkaConnection | undefined;
  /** Leader that was last confirmed. undefined after a fault. */
  #leader: Leader | undefined;
  #replicas = 1;
  #epoch = 0;

  constructor(cluster: KafkaCluster, target: TopicPartition, plan: TopicPlan) {
    this.cluster = cluster;
    this.target = target;
    this.#plan = plan;
    this.name = `${target.topic}/${target.partition}`;
  }

  /** Number that increases after every fault. A check of the log is valid only within one epoch. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Creates the topic if it is missing. Checks it once per process. Rejects with `TopicMisconfigured` or `KafkaFault`. */
  async checkTopic(): Promise<void> {
    const { checkedTopics } = this.cluster;
    const name = JSON.stringify(this.#plan);
    const pending = checkedTopics.get(name) ?? this.#checkTopic();
    checkedTopics.set(name, pending);
    try {
      await pending;
    } catch (error) {
      if (checkedTopics.get(name) === pending) checkedTopics.delete(name);
      throw error;
    }
  }

  async #checkTopic(): Promise<void> {
    const { cluster } = this;
    const { topic } = this.target;
    const connection = await cluster.anyBroker();
    const metadata = await cluster.metadata(topic);
    if (metadata.errorCode === 0 && metadata.partitions.length > 0)
      return await checkTopic(connection, this.#plan, metadata);
    cluster.invalidate(topic);
    if (metadata.errorCode === 3 && !this.#plan.mustExist)
      await createTopic(connection, this.#plan, metadata.brokers.length);
    // Fail this attempt, so that the next one finds the new topic and checks it.
    throw new KafkaFault('LEADER_NOT_AVAILABLE', { kind: 'answered' });
  }

  /** Checks the topic, then retries the request until the deadline. After each fault, the leader is looked up again. */
  retryUntilDeadline<Result>(
    request: () => Promise<Result>,
    policy: Omit<RetryPolicy, 'operation'>,
  ): Promise<Result> {
    const onFault = ({ type }: KafkaFault) => {
      this.invalidate();
      // Re-create a deleted topic if processes republish its records anyway, as a starting process would.
      if (type === 'UNKNOWN_TOPIC_OR_PARTITION' && isRepublished(this.#plan.topic))
        this.cluster.checkedTopics.delete(JSON.stringify(this.#plan));
    };
    const checked = async () => {
      await this.checkTopic();
      return await request();
    };
    return retryUntilDeadline(checked, { operation: `${this.name} on Kafka`, onFault, ...policy });
  }

  /** Discards the results of all checks. Call it after every fault. */
  invalidate(): void {
    this.#epoch++;
    this.cluster.invalidate(this.target.topic);
    this.#checkedOn = undefined;
    this.#leader = undefined;
  }

  /** Records an acknowledged append. Throws `LogReplaced` if its offset is below that of an earlier append. */
  recordAppend(offset: number, nextOffset: number): void {
    if (offset < this.#endAcknowledged) throw this.#endDecreased(offset);
    this.#endAcknowledged = nextOffset;
    this.recordRead(nextOffset);
  }

  /** Records how far a tail has read. */
  recordRead(nextOffset: number): void {
    this.#endSeen = Math.max(this.#endSeen, nextOffset);
  }

  /** Whether other brokers hold replicas too. If so, one of them may lead although a deposed leader does not know it yet. */
  get isReplicated(): boolean {
    return this.#replicas > 1;
  }

  /** Whether the leader that was last confirmed is a different broker. */
  leadsElsewhere({ nodeId }: Leader): boolean {
    return this.#leader !== undefined && this.#leader.nodeId !== nodeId;
  }

  /** Returns the end according to a leader that enough brokers name, so that every acknowledged append is before it. */
  async confirmedEnd(): Promise<number> {
    const leader = await this.cluster.leader(this.target);
    await this.cluster.confirmLeader(leader, this.target);
    this.#leader = leader;
    this.#replicas = leader.replicas;
    return await this.#endAt(await this.cluster.connectionTo(leader));
  }

  /** Returns the end according to the leader in the latest metadata. Rejects with `LogReplaced` or `KafkaFault`. */
  async end(): Promise<number> {
    return await this.#endAt(await this.#leaderConnection());
  }

  /** Returns the offset of the first record at or after this time, or the end. Rejects with `LogReplaced` or `KafkaFault`. */
  async offsetAt(atMs: number): Promise<number> {
    const connection = await this.#leaderConnection();
    const end = await this.#endAt(connection);
    return (await connection.offsetAt(this.target, atMs)) ?? end;
  }

  async #endAt(connection: KafkaConnection): Promise<number> {
    const end = await connection.offset(this.target, 'end');
    const known = this.#checkedOn === connection && (this.#first !== undefined || end === 0);
    if (!known || end < this.#endSeen) await this.check();
    this.#endSeen = Math.max(this.#endSeen, end);
    return end;
  }

  /** Checks that first record and end are consistent with the last check. Rejects with `LogReplaced` or `KafkaFault`. */
  async check(): Promise<Range> {
    const connection = await this.#leaderConnection();
    const range = await this.#range(connection);
    if (range.end > range.start) await this.#compareFirst(connection, range.start);
    this.#checkedOn = connection;
    return range;
  }

  async #range(connection: KafkaConnection): Promise<Range> {
    const deadlineMs = performance.now() + settleMs;
    for (;;) {
      const start = await connection.offset(this.target, 'start');
      const end = await connection.offset(this.target, 'end');
      if (end >= this.#endSeen) return { start, end };
      if (performance.now() > deadlineMs) throw this.#endDecreased(end);
      await sleep(50);
    }
  }

  async #compareFirst(connection: KafkaConnection, start: number): Promise<void> {
    const { recordSet } = await connection.fetch({ ...this.target, offset: start, waitMs: 0, bytesMax: 1 });
    const [batch] = parseBatches(recordSet);
    // The record has just been deleted or is not visible yet, so let the caller retry.
    if (!batch || batch.nextOffset <= start)
      throw new KafkaFault('OFFSET_OUT_OF_RANGE', { kind: 'answered' });
    const found = { offset: Math.max(batch.firstOffset, start), identity: batch.identity };
    const before = this.#first;
    if (
      before &&
      (found.offset < before.offset || (found.offset === before.offset && found.identity !== before.identity))
    )
      throw this.#replaced('begins with another record than before');
    this.#first = found;
  }

  async #leaderConnection(): Promise<KafkaConnection> {
    return await this.cluster.connectionTo(await this.cluster.leader(this.target));
  }

  #endDecreased(end: number): LogReplaced {
    return this.#replaced(`ends at offset ${end}, but had records up to ${this.#endSeen}`);
  }

  #replaced(how: string): LogReplaced {
    this.#epoch++;
    // Forget which topics were checked, so that the new topic is checked when the log is opened again.
    this.cluster.checkedTopics.clear();
    return new LogReplaced(`${this.name} on Kafka ${how}`);
  }
}

/** Whether a log that could not be opened may become usable later, because the brokers were only unreachable. */
export function mayOpenUnreached(error: unknown): boolean {
  if (!(error instanceof LogUnavailable) || error instanceof TopicMisconfigured) return false;
  return error.cause instanceof KafkaFault && !isPermanent(error.cause);
}
