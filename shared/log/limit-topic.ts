/**
 * A topic on which gateways exchange what they count: gauges or counters. Records are cumulative, so a lost, late or
 * doubled one is harmless, and a topic that was truncated or replaced is read from its beginning.
 * Everything read is hostile: only records of a bounded size with the HMAC of the gateway token are delivered.
 * It opens when first used, and again after a fault that the open log does not survive; no call blocks the event loop.
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
import { addRefused, macRefusalOf, RecordMac, type RefusedRecords } from './core/record-mac.ts';
import { openLog } from './open-log.ts';
import { type OpenTopic, ReopenedLog } from './reopened-log.ts';

/** A batch of so many records is the work of a reader that is behind, which does not rest. */
const behindRecords = 200;

export interface LimitBatch {
  readonly records: readonly LogRecord[];
  /** Records without a valid HMAC, or larger than allowed. */
  readonly rejected: number;
}

export interface FollowTopicOptions {
  /** A position, or a time (ms since 1970) from which on records are read. */
  readonly from: number | { readonly atMs: number };
  /** Called in the order of the topic. What it throws ends the follower. */
  readonly onBatch: (batch: LimitBatch) => void;
  readonly onFault: (error: Error) => void;
  /** Called after a batch that is not large; the next is read once this resolves, so that one read takes all that arrived meanwhile. */
  readonly rest?: (signal: AbortSignal) => Promise<void> | undefined;
  /** The topic was replaced or lost its end: it is read from its beginning, and what was published before may be gone. */
  readonly onRestart?: () => void;
}

export interface LimitTopicOptions {
  readonly topic: LimitTopicName;
  readonly open: OpenTopic;
  /** The first signs, all are accepted. */
  readonly tokens: readonly [string, ...string[]];
  /** Called when the topic cannot be read or written, with the reason and the next step where there is one, and when it can again. */
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
  /** Of the last call, and of the last attempt to read. */
  readonly #failing = new Set<'calls' | 'reading'>();

  constructor(options: LimitTopicOptions) {
    this.name = options.topic;
    this.#options = options;
    this.#mac = new RecordMac(options.topic, ...options.tokens);
    this.#log = new ReopenedLog(options.open);
  }

  /** False from a failed call on until one succeeds, and while the topic cannot be read, whatever is appended. */
  get reachable(): boolean {
    return this.#failing.size === 0;
  }

  /** Appends a record once, and never repeats it. Rejects with LogUnavailable or AppendUnknown, and where it is too large. */
  append(value: Uint8Array): Promise<number> {
    if (value.length > limitRecordBytesMax)
      return Promise.reject(new Error(`a record of ${this.name} has ${value.length} bytes`));
    return this.#noted(this.#log.append(value, this.#mac.of(value)));
  }

  /** The position after the last record. Rejects with LogUnavailable. */
  end(): Promise<number> {
    return this.#noted(this.#log.end());
  }

  /** Its `start` begins to read. It retries every fault of the log without end, and ends with the topic. */
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
      const counts =
        record.value.length <= limitRecordBytesMax && macRefusalOf(record, this.#mac) === undefined;
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

/** The topic at the address of the control log. It opens when first used. */
export function limitTopicAt(logUrl: string, options: Omit<LimitTopicOptions, 'open'>): LimitTopic {
  const { topic } = options;
  const keep = { keepSeconds: limitTopicKeepSeconds[topic], allowTrimmed: true };
  // A record that is lost with the machine is followed by a larger one, so no gateway waits for a flush.
  return new LimitTopic({
    ...options,
    open: (mustExist) => openLog(logUrl, { topic }, { ...keep, mustExist, durability: 'normal' }),
  });
}
