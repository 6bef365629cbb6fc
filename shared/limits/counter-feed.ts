/** Reads the counters topic into memory and a copy on disk, and publishes records. Works even while the topic is away. */
import { type CounterRecord, readCounterRecord } from '../../schemas/records/limits.ts';
import type { Follower } from '../log/core/follower.ts';
import type { LimitBatch, LimitTopic } from '../log/limit-topic.ts';
import { ReadTime, RemovalTime, wallClockMs } from '../runtime/clock.ts';
import type { LineLogger } from '../runtime/logger.ts';
import { sleep } from '../runtime/retry.ts';
import type { CounterCopy } from './counter-copy.ts';
import type { CounterState } from './counters.ts';

/** Interval in ms between writes of the copy. Writes are rare, because unsaved values can be read from the topic again. */
const saveEveryMs = 600_000;
/** Pause in ms between two reads of the topic. Reading in batches is cheaper. */
const restMs = 300;

export interface CounterFeedOptions {
  readonly topic: LimitTopic;
  readonly copy: CounterCopy;
  readonly state: CounterState;
  readonly logger: LineLogger;
  /** Id of this process. A record that this process wrote itself cannot confirm that the log's time is right. */
  readonly process: string;
  /** Merges one record, given its log time. Returns the number of entries in the record that were dropped. */
  readonly read: (record: CounterRecord, logMs: number) => number;
  readonly onRead?: () => void;
  /** Called before the whole topic is read again. Records that this process published may have been lost. */
  readonly onRestart?: () => void;
  /** Called with the keys of entries that have expired. */
  readonly onEnded?: (keys: readonly string[]) => void;
  /** Clock that replaces both the wall clock and the monotonic clock. */
  readonly now?: () => number;
}

/** Numbers of records that the feed has published and rejected since the process started. */
export interface CounterFeedCounts {
  published: number;
  /** Number of rejected records (foreign, truncated, forged, too large or invalid) and of entries dropped from valid ones. */
  rejected: number;
}

export class CounterFeed {
  readonly counts: CounterFeedCounts = { published: 0, rejected: 0 };
  readonly #options: CounterFeedOptions;
  readonly #follower: Follower;
  #timer: NodeJS.Timeout | undefined;
  readonly #removal = new RemovalTime();
  readonly #time: ReadTime;

  constructor(options: CounterFeedOptions) {
    const { topic, copy, logger, onRestart } = options;
    this.#options = options;
    this.#time = new ReadTime(options.now, options.now);
    this.#follower = topic.follower({
      from: copy.nextOffset ?? 0,
      onBatch: (batch) => this.#onBatch(batch),
      onFault: (error) => logger.fatal({ err: error }, 'counters of other gateways are no longer read'),
      rest: (signal) => sleep(restMs, signal),
      ...(onRestart && { onRestart }),
    });
  }

  /** Offset up to which the topic has been read. */
  get position(): number {
    return this.#follower.position;
  }

  start(): void {
    this.#follower.start();
    this.#timer = setInterval(() => this.save(), saveEveryMs).unref();
  }

  /** Resolves to true once everything in the topic has been read, or to false at the deadline or when the feed stops. */
  caughtUp(timeoutMs: number): Promise<boolean> {
    return this.#follower.caughtUp(timeoutMs).catch(() => false);
  }

  /** Publishes a record. Returns false if the topic did not acknowledge it, although the record may have arrived. */
  async publish(record: CounterRecord): Promise<boolean> {
    try {
      await this.#options.topic.append(Buffer.from(JSON.stringify(record)));
      this.counts.published++;
      return true;
    } catch {
      return false;
    }
  }

  /** Writes the copy. A failure is only logged, because the next start reads the missing records again. */
  save(): void {
    const { copy, state, logger, onEnded } = this.#options;
    // Expire an entry only if the log's clock and this process's clock agree, so that one wrong clock cannot remove it.
    const untilMs = this.#removal.limit(Math.min(this.logNow(), this.#now()));
    const ended = state.expire(untilMs);
    if (ended.length > 0) onEnded?.(ended);
    try {
      copy.save(state, this.position, ended);
    } catch (error) {
      logger.warn({ err: error }, 'the copy of the counters could not be written');
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#follower.stop();
    this.save();
    this.#options.copy.close();
    await this.#options.topic.close();
  }

  #onBatch({ records, rejected }: LimitBatch): void {
    const nowMs = this.#now();
    this.counts.rejected += rejected;
    for (const { value, atMs = nowMs } of records) {
      const record = readCounterRecord(value);
      if (record === undefined) {
        this.counts.rejected++;
        continue;
      }
      const writerMs = record.process === this.#options.process ? atMs : record.at;
      this.counts.rejected += this.#options.read(record, this.#time.read(atMs, writerMs));
    }
    this.#options.onRead?.();
  }

  /** Log time of the records read so far, ignoring clock leaps. Before the first record, it is this process's own time. */
  logNow(): number {
    return this.#time.now();
  }

  #now(): number {
    return (this.#options.now ?? wallClockMs)();
  }
}
