/**
 * Reads the counters topic without end into a state, keeps its copy on disk, and publishes records. Each process that needs
 * the counters has one. It counts what is not a record, and continues without the topic from what it has.
 */
import { Counter, type Registry } from 'prom-client';
import { type CounterRecord, readCounterRecord } from '../../schemas/limits.ts';
import type { LimitBatch, LimitTopic } from '../log/limit-topic.ts';
import type { LineLogger } from '../runtime/logger.ts';
import { Backoff, sleep } from '../runtime/retry.ts';
import type { CounterCopy } from './counter-copy.ts';
import type { CounterState } from './counters.ts';

/** How often what was read is written to the copy: rarely, because each value costs a row, and a start reads the rest again. */
const saveEveryMs = 600_000;
/** Pause between two reads of the topic: what is read together costs little. */
const restMs = 300;

export interface CounterFeedOptions {
  readonly topic: LimitTopic;
  readonly copy: CounterCopy;
  readonly state: CounterState;
  readonly logger: LineLogger;
  /** Merges one record; returns how many of its entries were dropped. */
  readonly read: (record: CounterRecord, nowMs: number) => number;
  /** After each batch. */
  readonly onRead?: () => void;
  /** What was published before may be gone. */
  readonly onRestart?: () => void;
  /** Entries of these keys have ended. */
  readonly onEnded?: (keys: readonly string[]) => void;
  readonly now?: () => number;
}

/** Of one process, since its start. */
export interface CounterFeedCounts {
  /** Records published. */
  published: number;
  /** Records read that are foreign, cut, forged, too large or no records, and entries out of bounds. */
  rejected: number;
}

/** Registers what a process exchanges of counters as metrics. */
export function measureCounterFeed(registry: Registry, counts: () => CounterFeedCounts): void {
  for (const [what, help] of [
    ['published', 'records of counters published since the start'],
    ['rejected', 'records of counters that were foreign, damaged or out of bounds since the start'],
  ] as const)
    new Counter({
      name: `headgate_counters_${what}_total`,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(counts()[what]);
      },
    });
}

export class CounterFeed {
  readonly counts: CounterFeedCounts = { published: 0, rejected: 0 };
  readonly #options: CounterFeedOptions;
  readonly #stop = new AbortController();
  #next: number;
  #running: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CounterFeedOptions) {
    this.#options = options;
    this.#next = options.copy.nextOffset ?? 0;
  }

  /** The position in the topic up to which all was read. */
  get position(): number {
    return this.#next;
  }

  /** Starts reading; returns at once. */
  start(): void {
    const { topic, onRestart } = this.#options;
    this.#running = topic.follow({
      from: this.#next,
      signal: this.#stop.signal,
      onBatch: (batch) => this.#onBatch(batch),
      rest: (signal) => sleep(restMs, signal),
      onRestart: () => {
        this.#next = 0;
        onRestart?.();
      },
    });
    this.#running.catch((error: unknown) =>
      this.#options.logger.fatal({ err: error }, 'counters of other gateways are no longer read'),
    );
    this.#timer = setInterval(() => this.save(), saveEveryMs).unref();
  }

  /** Resolves true once all that the topic holds now was read, false at the deadline. */
  async caughtUp(timeoutMs: number): Promise<boolean> {
    const untilMs = performance.now() + timeoutMs;
    const backoff = new Backoff({ minMs: 5, maxMs: 100 });
    let end: number | undefined;
    while (!this.#stop.signal.aborted && performance.now() < untilMs) {
      end ??= await this.#options.topic.end().catch(() => undefined);
      if (end !== undefined && this.#next >= end) return true;
      await backoff.pause(this.#stop.signal);
    }
    return false;
  }

  /** False where the topic did not acknowledge it: it may be there or not. */
  async publish(record: CounterRecord): Promise<boolean> {
    try {
      await this.#options.topic.append(Buffer.from(JSON.stringify(record)));
      this.counts.published++;
      return true;
    } catch {
      return false;
    }
  }

  /** Writes the copy; a failure is reported, and what was read is read again at the next start. */
  save(): void {
    const { copy, state, logger, onEnded } = this.#options;
    const ended = state.expire(this.#now());
    if (ended.length > 0) onEnded?.(ended);
    try {
      copy.save(state, this.#next, ended);
    } catch (error) {
      logger.warn({ err: error }, 'the copy of the counters could not be written');
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stop.abort();
    await this.#running?.catch(() => undefined);
    this.save();
    this.#options.copy.close();
    await this.#options.topic.close();
  }

  #onBatch({ records, rejected, nextOffset }: LimitBatch): void {
    const nowMs = this.#now();
    this.counts.rejected += rejected;
    for (const { value } of records) {
      const record = readCounterRecord(value);
      this.counts.rejected += record === undefined ? 1 : this.#options.read(record, nowMs);
    }
    this.#next = nextOffset;
    this.#options.onRead?.();
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}
