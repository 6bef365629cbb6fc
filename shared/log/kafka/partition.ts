/**
 * One partition as its readers and its writer share it: that its topic is there and rightly set, and that it still is the
 * log that was opened. Kafka gives a deleted and re-created topic the same name and offsets, and says nothing; so the
 * first record is remembered and compared again after every reconnect and every fault, and the end may never go back.
 */
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { LogReplaced, LogUnavailable } from '../core/control-log.ts';
import type { KafkaCluster, Leader } from './cluster.ts';
import type { FetchedMessage, KafkaConnection, Place } from './connection.ts';
import { isLasting, KafkaFault, TopicMisset } from './errors.ts';
import { type Patience, patiently } from './retry.ts';
import { checkTopic, createTopic, type TopicPlan } from './topics.ts';

/** How long a new leader may take to know again what the old one had acknowledged. */
const settleMs = 1000;

export interface Range {
  readonly start: number;
  readonly end: number;
}

/** The first record that was seen, and where. */
interface FirstRecord {
  readonly offset: number;
  readonly hash: string;
}

export class KafkaPartition {
  readonly cluster: KafkaCluster;
  readonly place: Place;
  readonly name: string;
  readonly #plan: TopicPlan;
  #first: FirstRecord | undefined;
  /** Behind the last record that was read or acknowledged here. */
  #endSeen = 0;
  /** Behind the last record that was acknowledged to this process's one writer. */
  #endAcknowledged = 0;
  /** The connection on which this was last found to be the same log. */
  #checkedOn: KafkaConnection | undefined;
  /** Who led when that was last confirmed; unknown after every fault. */
  #leader: Leader | undefined;
  #replicas = 1;
  #doubts = 0;

  constructor(cluster: KafkaCluster, place: Place, plan: TopicPlan) {
    this.cluster = cluster;
    this.place = place;
    this.#plan = plan;
    this.name = `${place.topic}/${place.partition}`;
  }

  /** Grows with every fault; who has compared the log since need not do so again. */
  get doubts(): number {
    return this.#doubts;
  }

  /** Creates the topic where it is missing, and checks it, once a process. Rejects with TopicMisset or KafkaFault. */
  async checkTopic(): Promise<void> {
    const { checkedTopics } = this.cluster;
    const name = JSON.stringify(this.#plan);
    const checking = checkedTopics.get(name) ?? this.#checkTopic();
    checkedTopics.set(name, checking);
    try {
      await checking;
    } catch (error) {
      if (checkedTopics.get(name) === checking) checkedTopics.delete(name);
      throw error;
    }
  }

  async #checkTopic(): Promise<void> {
    const { cluster } = this;
    const { topic } = this.place;
    const connection = await cluster.anyBroker();
    const metadata = await cluster.metadata(topic);
    if (metadata.errorCode === 0 && metadata.partitions.length > 0)
      return await checkTopic(connection, this.#plan, metadata);
    cluster.forget(topic);
    if (metadata.errorCode === 3 && !this.#plan.mustExist)
      await createTopic(connection, this.#plan, metadata.brokers.length);
    // Found and checked by the next attempt.
    throw new KafkaFault('LEADER_NOT_AVAILABLE', { kind: 'answered' });
  }

  /** Tries until it is answered or the deadline has passed, and asks for the leader again after each fault. */
  patiently<Answer>(ask: () => Promise<Answer>, patience: Omit<Patience, 'what'>): Promise<Answer> {
    const onFault = () => this.suspect();
    const whole = async () => {
      await this.checkTopic();
      return await ask();
    };
    return patiently(whole, { what: `${this.name} on Kafka`, onFault, ...patience });
  }

  /** After a fault nothing is taken for granted. */
  suspect(): void {
    this.#doubts++;
    this.cluster.forget(this.place.topic);
    this.#checkedOn = undefined;
    this.#leader = undefined;
  }

  /** Takes note of an acknowledged append. Throws LogReplaced where a log that only grows cannot have put it there. */
  sawAppended(offset: number, nextOffset: number): void {
    if (offset < this.#endAcknowledged) throw this.#wentBack(offset);
    this.#endAcknowledged = nextOffset;
    this.sawRead(nextOffset);
  }

  /** Takes note of what was read. */
  sawRead(nextOffset: number): void {
    this.#endSeen = Math.max(this.#endSeen, nextOffset);
  }

  /** Whether other brokers hold replicas, too: one of them may lead without the leader of before knowing it. */
  get isReplicated(): boolean {
    return this.#replicas > 1;
  }

  /** Whether somebody else than this broker was last confirmed to lead. */
  leadsElsewhere({ nodeId }: Leader): boolean {
    return this.#leader !== undefined && this.#leader.nodeId !== nodeId;
  }

  /**
   * The end, asked for now of a leader that a second broker names, too. Every append acknowledged before is below it, also
   * where the leader is an old one that was cut off. Rejects with LogReplaced or KafkaFault.
   */
  async confirmedEnd(): Promise<number> {
    const leader = await this.cluster.leader(this.place);
    await this.cluster.confirm(leader, this.place);
    this.#leader = leader;
    this.#replicas = leader.replicas;
    return await this.#endAt(await this.cluster.ask(leader));
  }

  /** The end as whoever is thought to lead tells it. Rejects with LogReplaced or KafkaFault. */
  async end(): Promise<number> {
    return await this.#endAt(await this.#askLeader());
  }

  async #endAt(connection: KafkaConnection): Promise<number> {
    const end = await connection.offset(this.place, 'end');
    const known = this.#checkedOn === connection && (this.#first !== undefined || end === 0);
    if (!known || end < this.#endSeen) await this.check();
    this.#endSeen = Math.max(this.#endSeen, end);
    return end;
  }

  /** Compares what is there with what was there. Rejects with LogReplaced or KafkaFault. */
  async check(): Promise<Range> {
    const connection = await this.#askLeader();
    const range = await this.#range(connection);
    if (range.end > range.start) await this.#compareFirst(connection, range.start);
    this.#checkedOn = connection;
    return range;
  }

  async #range(connection: KafkaConnection): Promise<Range> {
    const untilMs = performance.now() + settleMs;
    for (;;) {
      const start = await connection.offset(this.place, 'start');
      const end = await connection.offset(this.place, 'end');
      if (end >= this.#endSeen) return { start, end };
      if (performance.now() > untilMs) throw this.#wentBack(end);
      await pause(50);
    }
  }

  async #compareFirst(connection: KafkaConnection, start: number): Promise<void> {
    const { messages } = await connection.fetch({ ...this.place, offset: start, waitMs: 0, bytesMax: 1 });
    const message = messages.find(({ offset }) => Number(offset) >= start);
    // Deleted meanwhile, or not yet to be seen: the caller asks again.
    if (!message) throw new KafkaFault('OFFSET_OUT_OF_RANGE', { kind: 'answered' });
    const found = { offset: Number(message.offset), hash: hashOf(message) };
    const was = this.#first;
    if (was && (found.offset < was.offset || (found.offset === was.offset && found.hash !== was.hash)))
      throw this.#other(`begins with another record than before`);
    this.#first = found;
  }

  async #askLeader(): Promise<KafkaConnection> {
    return await this.cluster.ask(await this.cluster.leader(this.place));
  }

  #wentBack(end: number): LogReplaced {
    return this.#other(`ends at offset ${end}, but had records up to ${this.#endSeen}`);
  }

  #other(how: string): LogReplaced {
    this.#doubts++;
    // Who opens it again looks at the topic that is there now.
    this.cluster.checkedTopics.clear();
    return new LogReplaced(`${this.name} on Kafka ${how}`);
  }
}

/** The time of a record tells apart two logs that begin with the same bytes. */
function hashOf({ timestamp, value }: FetchedMessage): string {
  return createHash('sha256')
    .update(`${timestamp}\n`)
    .update(value ?? '')
    .digest('hex');
}

/** Whether a log that is opened now may be used later: it could not be reached, but nothing is known to be wrong. */
export function mayOpenUnreached(error: unknown): boolean {
  if (!(error instanceof LogUnavailable) || error instanceof TopicMisset) return false;
  return error.cause instanceof KafkaFault && !isLasting(error.cause);
}
