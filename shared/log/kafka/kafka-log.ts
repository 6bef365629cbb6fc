/**
 * A log stored in one partition of a Kafka topic. It keeps the promises of `control-log.ts`: an end counts only if enough
 * brokers name the same leader, and an append that may have been written is never repeated. Closing the log ends all its
 * requests immediately.
 */
import { setMaxListeners } from 'node:events';
import {
  type LogBatch,
  type LogInspection,
  LogUnavailable,
  type TailOptions,
  type TimedLog,
  type TopicReading,
} from '../core/control-log.ts';
import { KafkaAppender } from './appender.ts';
import { createDial } from './client.ts';
import { type KafkaCluster, sharedCluster } from './cluster.ts';
import { isForbidden } from './errors.ts';
import type { KafkaFiles } from './files.ts';
import { inspectBrokers } from './inspect.ts';
import { KafkaPartition, mayOpenUnreached } from './partition.ts';
import { closedError, retryUntilDeadline } from './retry.ts';
import type { KafkaSettings } from './settings.ts';
import { tailPartition } from './tail.ts';
import { isRepublished, topicPlan } from './topics.ts';

export interface KafkaLogOptions {
  readonly topic: string;
  readonly partition: number;
  /** Retention in seconds of topics that have no plan of their own. If omitted, records are kept forever. */
  readonly keepSeconds?: number;
  /** Lets a tail that requests deleted records start at the first remaining one, instead of throwing `LogTruncated`. */
  readonly allowTrimmed?: boolean;
  /** Rejects with `LogUnavailable` if the topic does not exist, instead of creating it. */
  readonly mustExist?: boolean;
  /** Time in ms for which opening the log waits for the brokers. */
  readonly openTimeoutMs?: number;
  /** Time in ms for which an unsent append is retried. */
  readonly appendTimeoutMs?: number;
  /** Time in ms for which `end` waits for the brokers. */
  readonly endTimeoutMs?: number;
  /** Time in ms for which a failing tail retries before it reports the fault. */
  readonly tailTimeoutMs?: number;
}

const defaults = {
  allowTrimmed: false,
  openTimeoutMs: 10_000,
  appendTimeoutMs: 5000,
  endTimeoutMs: 3000,
  tailTimeoutMs: 5000,
};

/**
 * Opens one partition of a topic. Creates a missing topic and checks an existing one. If the brokers are unreachable, it
 * opens anyway, and calls reject with `LogUnavailable`. Rejects with `TopicMisconfigured`, or with `LogUnavailable` for wrong
 * credentials.
 */
export async function openKafkaLog(
  brokers: readonly string[],
  settings: KafkaSettings,
  options: KafkaLogOptions,
  files?: KafkaFiles,
): Promise<TimedLog> {
  const log = new KafkaLog(openCluster(brokers, settings, files), options);
  try {
    await log.open();
    return log;
  } catch (error) {
    await log.close();
    throw error;
  }
}

/** Returns the shared cluster. New connections use the current content of `files`, if given, and these settings otherwise. */
export function openCluster(
  brokers: readonly string[],
  settings: KafkaSettings,
  files?: KafkaFiles,
): KafkaCluster {
  return sharedCluster(brokers, settings, createDial(settings, files && (() => files.current())), files);
}

export class KafkaLog implements TimedLog {
  readonly #settings: typeof defaults;
  readonly #cluster: KafkaCluster;
  readonly #partition: KafkaPartition;
  readonly #appender: KafkaAppender;
  readonly #closing = new AbortController();
  readonly #tails = new Set<AbortController>();
  #writeFault: string | undefined;

  constructor(cluster: KafkaCluster, options: KafkaLogOptions) {
    const { topic, partition, keepSeconds, mustExist = false } = options;
    this.#settings = { ...defaults, ...options };
    this.#cluster = cluster;
    const plan = { ...topicPlan(topic, keepSeconds), mustExist: mustExist && !isRepublished(topic) };
    this.#partition = new KafkaPartition(cluster, { topic, partition }, plan);
    this.#appender = new KafkaAppender(this.#partition, this.#closing.signal, this.#settings.appendTimeoutMs);
    // Allow any number of listeners, because during an outage every caller adds one for its retry.
    setMaxListeners(0, this.#closing.signal);
    cluster.use();
  }

  get isReplicated(): boolean {
    return this.#partition.isReplicated;
  }

  /** Checks the topic and remembers the identity of its first record. Rejects with `TopicMisconfigured`. */
  async open(): Promise<void> {
    try {
      await this.#request(() => this.#partition.end(), this.#settings.openTimeoutMs);
    } catch (error) {
      if (!mayOpenUnreached(error)) throw error;
    }
  }

  async append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    try {
      const offset = await this.#appender.append(value, signature);
      this.#writeFault = undefined;
      return offset;
    } catch (error) {
      if (error instanceof LogUnavailable && isForbidden(error.cause)) this.#writeFault = error.message;
      throw error;
    }
  }

  /** The broker's reason for refusing the last append, if this process may not write to the topic. */
  get writeFault(): string | undefined {
    return this.#writeFault;
  }

  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    if (this.#closing.signal.aborted || options.signal?.aborted) return;
    const ending = new AbortController();
    const end = () => ending.abort();
    options.signal?.addEventListener('abort', end, { once: true });
    this.#tails.add(ending);
    const { allowTrimmed, tailTimeoutMs: timeoutMs } = this.#settings;
    try {
      yield* tailPartition(this.#partition, { ...options, signal: ending.signal, allowTrimmed, timeoutMs });
    } catch (error) {
      this.#cluster.readings.failed(this.#partition.target, error);
      throw error;
    } finally {
      this.#tails.delete(ending);
      options.signal?.removeEventListener('abort', end);
    }
  }

  async end(): Promise<number> {
    if (this.#closing.signal.aborted) throw closedError(this.#partition.name);
    return await this.#request(() => this.#partition.confirmedEnd(), this.#settings.endTimeoutMs);
  }

  async offsetAt(atMs: number): Promise<number> {
    if (this.#closing.signal.aborted) throw closedError(this.#partition.name);
    return await this.#request(() => this.#partition.offsetAt(atMs), this.#settings.endTimeoutMs);
  }

  async inspect(): Promise<LogInspection> {
    if (this.#closing.signal.aborted) throw closedError(this.#partition.name);
    const { endTimeoutMs: timeoutMs } = this.#settings;
    return await retryUntilDeadline(() => inspectBrokers(this.#cluster), {
      operation: 'a look at the topics on Kafka',
      timeoutMs,
      signal: this.#closing.signal,
      abandonAtDeadline: true,
      giveUpEarly: () => this.#cluster.isUnreachable,
      onFault: () => undefined,
    });
  }

  get settingsFault(): string | undefined {
    return this.#cluster.files?.fault;
  }

  readings(): readonly TopicReading[] {
    return this.#cluster.readings.all();
  }

  /** Retries a request for a limited time. If Kafka is down when a process starts, only its first request waits that long. */
  #request<Result>(request: () => Promise<Result>, timeoutMs: number): Promise<Result> {
    return this.#partition.retryUntilDeadline(request, {
      timeoutMs,
      signal: this.#closing.signal,
      abandonAtDeadline: true,
      giveUpEarly: () => this.#cluster.isUnreachable,
    });
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    for (const tail of this.#tails) tail.abort();
    this.#cluster.release();
  }
}
