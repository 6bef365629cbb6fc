/**
 * A partition on Kafka as a ControlLog: it brings together the appender, the tails and the questions for the end, and ends
 * all of them at once when it is closed, whether or not a broker answers.
 */
import { setMaxListeners } from 'node:events';
import type { ControlLog, LogBatch, TailOptions } from '../core/control-log.ts';
import { KafkaAppender } from './appender.ts';
import type { KafkaCluster } from './cluster.ts';
import { KafkaPartition, mayOpenUnreached } from './partition.ts';
import { closedError } from './retry.ts';
import { tailPartition } from './tail.ts';
import { planOf } from './topics.ts';

export interface KafkaPartitionOptions {
  readonly topic: string;
  readonly partition: number;
  /** How long a topic without a plan of its own keeps records; without it, for ever. */
  readonly keepSeconds?: number;
  /** A tail from before the first record kept begins there, instead of reporting LogTruncated. */
  readonly allowTrimmed?: boolean;
  /** Reject with LogUnavailable where there is no such topic, instead of making it. */
  readonly mustExist?: boolean;
  /** How long opening waits for the brokers, ms. */
  readonly openDeadlineMs?: number;
  /** How long an append that was not sent is tried, ms. */
  readonly appendDeadlineMs?: number;
  /** How long the end is asked for, ms. */
  readonly endDeadlineMs?: number;
  /** How long a fault of a tail lasts before it is reported, ms. */
  readonly tailPatienceMs?: number;
}

const defaults = {
  allowTrimmed: false,
  openDeadlineMs: 10_000,
  appendDeadlineMs: 5000,
  endDeadlineMs: 3000,
  tailPatienceMs: 5000,
};

export class KafkaPartitionLog implements ControlLog {
  readonly #settings: typeof defaults;
  readonly #cluster: KafkaCluster;
  readonly #partition: KafkaPartition;
  readonly #appender: KafkaAppender;
  readonly #closing = new AbortController();
  readonly #tails = new Set<AbortController>();

  constructor(cluster: KafkaCluster, options: KafkaPartitionOptions) {
    const { topic, partition, keepSeconds, mustExist = false } = options;
    this.#settings = { ...defaults, ...options };
    this.#cluster = cluster;
    this.#partition = new KafkaPartition(
      cluster,
      { topic, partition },
      {
        ...planOf(topic, keepSeconds),
        mustExist,
      },
    );
    this.#appender = new KafkaAppender(
      this.#partition,
      this.#closing.signal,
      this.#settings.appendDeadlineMs,
    );
    // Each question that waits for its next try listens; in an outage there are as many as there are askers.
    setMaxListeners(0, this.#closing.signal);
    cluster.use();
  }

  get isReplicated(): boolean {
    return this.#partition.isReplicated;
  }

  /** Checks the topic and remembers how the log begins. Rejects with TopicMisset. */
  async open(): Promise<void> {
    try {
      await this.#ask(() => this.#partition.end(), this.#settings.openDeadlineMs);
    } catch (error) {
      if (!mayOpenUnreached(error)) throw error;
    }
  }

  append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    return this.#appender.append(value, signature);
  }

  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    if (this.#closing.signal.aborted || options.signal?.aborted) return;
    const ending = new AbortController();
    const end = () => ending.abort();
    options.signal?.addEventListener('abort', end, { once: true });
    this.#tails.add(ending);
    const { allowTrimmed, tailPatienceMs: patienceMs } = this.#settings;
    try {
      yield* tailPartition(this.#partition, { ...options, signal: ending.signal, allowTrimmed, patienceMs });
    } finally {
      this.#tails.delete(ending);
      options.signal?.removeEventListener('abort', end);
    }
  }

  async end(): Promise<number> {
    if (this.#closing.signal.aborted) throw closedError(this.#partition.name);
    return await this.#ask(() => this.#partition.confirmedEnd(), this.#settings.endDeadlineMs);
  }

  /** A process that starts without Kafka asks for several ends on its way, and waits for the first of them only. */
  #ask(end: () => Promise<number>, deadlineMs: number): Promise<number> {
    const isHopeless = () => this.#cluster.isAway;
    const patience = { deadlineMs, signal: this.#closing.signal, strict: true, isHopeless };
    return this.#partition.patiently(end, patience);
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    for (const tail of this.#tails) tail.abort();
    this.#cluster.release();
  }
}
