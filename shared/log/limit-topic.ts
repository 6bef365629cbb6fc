/**
 * A topic on which gateways exchange counts for shared limits: gauges or counters. Records are cumulative, so a lost, late or
 * repeated record is harmless. All input is treated as hostile: only records of bounded size with an HMAC under the gateway
 * token are delivered. The topic is opened on first use and reopened after a fault. Calls never block the event loop.
 */
import {
  type LimitTopicName,
  limitRecordBytesMax,
  limitTopicKeepSeconds,
} from '../../schemas/records/limits.ts';
import {
  AppendUnknown,
  type LogRecord,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from './core/control-log.ts';
import { Follower } from './core/follower.ts';
import { addRefused, checkMac, RecordMac, type RefusedRecords } from './core/record-mac.ts';
import { openLog } from './open-log.ts';
import { type OpenTopic, ReopenedLog } from './reopened-log.ts';

/** A reader whose batch has at least this many records counts as behind, so it reads the next batch without a pause. */
const behindRecords = 200;

export interface LimitBatch {
  readonly records: readonly LogRecord[];
  /** Number of records without a valid HMAC or above the size limit. */
  readonly rejected: number;
}

export interface FollowTopicOptions {
  /** Position at which to start reading: an offset, or a time in ms since 1970. */
  readonly from: number | { readonly atMs: number };
  /** Called with each batch in topic order. If it throws, the follower stops. */
  readonly onBatch: (batch: LimitBatch) => void;
  readonly onFault: (error: Error) => void;
  /** Called after each small batch. The next batch is read once the promise resolves, so a pause lets batches grow. */
  readonly rest?: (signal: AbortSignal) => Promise<void> | undefined;
  /** Called when the topic was replaced or truncated, before it is read again from its beginning. Records may be lost. */
  readonly onRestart?: () => void;
}

export interface LimitTopicOptions {
  readonly topic: LimitTopicName;
  readonly open: OpenTopic;
  /** Gateway tokens. The first one signs records, and all are accepted. */
  readonly tokens: readonly [string, ...string[]];
  /** Called when the topic becomes unreachable, with the reason and the next step, and when it is reachable again. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class LimitTopic {
  readonly name: LimitTopicName;
  refused: RefusedRecords | undefined;
  readonly #options: LimitTopicOptions;
  readonly #mac: RecordMac;
  readonly #log: ReopenedLog;
  readonly #followers: Follower[] = [];
  #isClosed = false;
  /** Kinds of operations whose last attempt failed. */
  readonly #failing = new Set<'calls' | 'reading'>();

  constructor(options: LimitTopicOptions) {
    this.name = options.topic;
    this.#options = options;
    this.#mac = new RecordMac(options.topic, ...options.tokens);
    this.#log = new ReopenedLog(options.open);
  }

  /** Whether both calls and reading last succeeded. False while the topic cannot be read, even if appends succeed. */
  get reachable(): boolean {
    return this.#failing.size === 0;
  }

  /** Appends a record without retrying. Rejects with `LogUnavailable` or `AppendUnknown`, or if the record is too large. */
  append(value: Uint8Array): Promise<number> {
    if (value.length > limitRecordBytesMax)
      return Promise.reject(new Error(`a record of ${this.name} has ${value.length} bytes`));
    return this.#noted(this.#log.append(value, this.#mac.of(value)));
  }

  /** Returns the offset after the last record. Rejects with `LogUnavailable`. */
  end(): Promise<number> {
    return this.#noted(this.#log.end());
  }

  /** Returns a follower; call its `start` to begin. It retries log faults until the topic is closed. */
  follower({ from, onBatch, onFault, rest, onRestart }: FollowTopicOptions): Follower {
    const follower: Follower = new Follower({
      log: this.#log,
      ...(typeof from === 'number'
        ? { from }
        : { begin: async (position) => position ?? (await this.#log.offsetAt(from.atMs)) }),
      fold: (records) => {
        onBatch(this.#accepted(records));
        return records.length;
      },
      rest: (records) => (records < behindRecords ? rest?.(follower.signal) : undefined),
      ...(onRestart && { onRestart }),
      isFatal: (error) => !isLogFault(error),
      onFault,
      isReachedByReading: true,
      onReachabilityChange: (reachable, error) =>
        reachable || error === undefined ? this.#succeeded('reading') : this.#failed('reading', error),
    });
    this.#followers.push(follower);
    return follower;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#followers.map((follower) => follower.stop()), this.#log.close()]);
  }

  #accepted(read: readonly LogRecord[]): LimitBatch {
    const records = read.filter((record) => {
      const counts = record.value.length <= limitRecordBytesMax && checkMac(record, this.#mac) === undefined;
      if (!counts) this.refused = addRefused(this.refused, record.offset);
      return counts;
    });
    return { records, rejected: read.length - records.length };
  }

  async #noted<Result>(call: Promise<Result>): Promise<Result> {
    try {
      const result = await call;
      this.#succeeded('calls');
      return result;
    } catch (error) {
      if (isLogFault(error) && !this.#isClosed) this.#failed('calls', error);
      throw error;
    }
  }

  #succeeded(what: 'calls' | 'reading'): void {
    if (this.#failing.delete(what) && this.reachable) this.#options.onReachabilityChange?.(true);
  }

  #failed(what: 'calls' | 'reading', error: Error): void {
    if (this.reachable) this.#options.onReachabilityChange?.(false, error);
    this.#failing.add(what);
  }
}

function isLogFault(error: unknown): error is Error {
  return [LogUnavailable, AppendUnknown, LogTruncated, LogReplaced].some((fault) => error instanceof fault);
}

/** Returns the topic at the control log's address. The topic itself is opened on first use. */
export function openLimitTopic(logUrl: string, options: Omit<LimitTopicOptions, 'open'>): LimitTopic {
  const { topic } = options;
  const keep = { keepSeconds: limitTopicKeepSeconds[topic], allowTrimmed: true };
  // Do not wait for flushes to disk, because if a crash loses a record, a later cumulative record includes its counts.
  return new LimitTopic({
    ...options,
    open: (mustExist) => openLog(logUrl, { topic }, { ...keep, mustExist, durability: 'normal' }),
  });
}
