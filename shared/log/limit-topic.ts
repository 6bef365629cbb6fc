/**
 * A topic on which gateways exchange what they count: gauges or counters. Records are cumulative, so a lost, late or
 * doubled one is harmless, and a topic that was truncated or replaced is read from its beginning.
 * Everything read is hostile: only records of a bounded size with the HMAC of the gateway token are delivered.
 * It opens when first used, and again after a fault that the open log does not survive; no call blocks the event loop.
 */
import { setMaxListeners } from 'node:events';
import { type LimitTopicName, limitRecordBytesMax, limitTopicKeepSeconds } from '../../schemas/limits.ts';
import { Backoff } from '../runtime/retry.ts';
import {
  AppendUnknown,
  type LogBatch,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
  type TimedLog,
} from './core/control-log.ts';
import { addRefused, macRefusalOf, RecordMac, type RefusedRecords } from './core/record-mac.ts';
import { openLog } from './open-log.ts';

const retryMsMin = 20;
const retryMsMax = 2000;
/** A batch of so many records is the work of a reader that is behind, which does not rest. */
const behindRecords = 200;

export interface LimitRecord {
  readonly offset: number;
  readonly value: Buffer;
  /** As of LogRecord. */
  readonly atMs?: number;
}

export interface LimitBatch {
  /** May be empty. */
  readonly records: readonly LimitRecord[];
  /** Records without a valid HMAC, or larger than allowed. */
  readonly rejected: number;
  /** The position to continue at. */
  readonly nextOffset: number;
}

export interface FollowTopicOptions {
  /** A position, or a time (ms since 1970) from which on records are read. */
  readonly from: number | { readonly atMs: number };
  readonly signal: AbortSignal;
  /** Called in the order of the topic. What it throws ends `follow`. */
  readonly onBatch: (batch: LimitBatch) => void;
  /** Called after a batch that is not large; the next is read once this resolves, so that one read takes all that arrived meanwhile. */
  readonly rest?: (signal: AbortSignal) => Promise<void> | undefined;
  /** The topic was replaced or lost its end: it is read from its beginning, and what was published before may be gone. */
  readonly onRestart?: () => void;
}

export interface LimitTopicOptions {
  readonly topic: LimitTopicName;
  /** `mustExist` after the first time: a folder or topic that was moved away is not made again in its place. */
  readonly open: (mustExist: boolean) => Promise<TimedLog>;
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
  readonly #closing = new AbortController();
  #log: Promise<TimedLog> | undefined;
  #wasOpen = false;
  /** How often the open log was found replaced. */
  #replacements = 0;
  /** Of the last call, and of the last attempt to read. */
  readonly #failing = new Set<'calls' | 'reading'>();

  constructor(options: LimitTopicOptions) {
    this.name = options.topic;
    this.#options = options;
    this.#mac = new RecordMac(options.topic, ...options.tokens);
    setMaxListeners(0, this.#closing.signal);
  }

  /** False from a failed call on until one succeeds, and while the topic cannot be read, whatever is appended. */
  get reachable(): boolean {
    return this.#failing.size === 0;
  }

  /** Appends a record once, and never repeats it. Rejects with LogUnavailable or AppendUnknown, and where it is too large. */
  append(value: Uint8Array): Promise<number> {
    if (value.length > limitRecordBytesMax)
      return Promise.reject(new Error(`a record of ${this.name} has ${value.length} bytes`));
    return this.#call((log) => log.append(value, this.#mac.of(value)));
  }

  /** The position after the last record. Rejects with LogUnavailable. */
  end(): Promise<number> {
    return this.#call((log) => log.end());
  }

  /** Reads until the signal aborts or the topic is closed, and retries every fault of the log without end. */
  async follow({ from, signal, onBatch, rest, onRestart }: FollowTopicOptions): Promise<void> {
    const ending = AbortSignal.any([signal, this.#closing.signal]);
    const backoff = new Backoff({ minMs: retryMsMin, maxMs: retryMsMax });
    let next = from;
    let replacements = this.#replacements;
    while (!ending.aborted) {
      if (replacements !== this.#replacements) {
        replacements = this.#replacements;
        next = 0;
        onRestart?.();
      }
      const opened = this.#opened();
      try {
        const log = await opened;
        if (typeof next !== 'number') next = await log.offsetAt(next.atMs);
        const onRead = () => this.#succeeded('reading');
        for await (const batch of log.tail({ from: next, signal: ending, onRead })) {
          backoff.reset();
          next = batch.nextOffset;
          onBatch(this.#accepted(batch));
          await restAfter(batch, rest, ending);
        }
      } catch (error) {
        if (ending.aborted) return;
        await this.#onFault('reading', error, opened);
        if (error instanceof LogTruncated) this.#replacements++;
      }
      await backoff.pause(ending);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await (await this.#log?.catch(() => undefined))?.close();
  }

  #accepted({ records, nextOffset }: LogBatch): LimitBatch {
    const accepted = records.filter((record) => {
      const counts =
        record.value.length <= limitRecordBytesMax && macRefusalOf(record, this.#mac) === undefined;
      if (!counts) this.refused = addRefused(this.refused, record.offset);
      return counts;
    });
    return { records: accepted, rejected: records.length - accepted.length, nextOffset };
  }

  async #call<Result>(call: (log: TimedLog) => Promise<Result>): Promise<Result> {
    const opened = this.#opened();
    try {
      const result = await call(await opened);
      this.#succeeded('calls');
      return result;
    } catch (error) {
      await this.#onFault('calls', error, opened);
      throw error instanceof LogReplaced ? new LogUnavailable(error.message, { cause: error }) : error;
    }
  }

  #opened(): Promise<TimedLog> {
    if (this.#closing.signal.aborted)
      return Promise.reject(new LogUnavailable(`${this.name}: the topic is closed`));
    if (this.#log !== undefined) return this.#log;
    const opening = this.#options.open(this.#wasOpen);
    this.#log = opening;
    opening.then(
      () => {
        this.#wasOpen = true;
      },
      () => {
        if (this.#log === opening) this.#log = undefined;
      },
    );
    return opening;
  }

  /** Rethrows what is no fault of the log. */
  async #onFault(what: 'calls' | 'reading', error: unknown, opened: Promise<TimedLog>): Promise<void> {
    if (!isLogFault(error)) throw error;
    if (!this.#closing.signal.aborted) this.#failed(what, error);
    if (!(error instanceof LogReplaced) || this.#log !== opened) return;
    this.#log = undefined;
    this.#replacements++;
    await (await opened).close();
  }

  #succeeded(what: 'calls' | 'reading'): void {
    if (this.#failing.delete(what) && this.reachable) this.#options.onReachabilityChange?.(true);
  }

  #failed(what: 'calls' | 'reading', error: Error): void {
    if (this.reachable) this.#options.onReachabilityChange?.(false, error);
    this.#failing.add(what);
  }
}

async function restAfter(
  { records }: LogBatch,
  rest: FollowTopicOptions['rest'],
  signal: AbortSignal,
): Promise<void> {
  if (records.length < behindRecords) await rest?.(signal);
}

function isLogFault(error: unknown): error is Error {
  return [LogUnavailable, AppendUnknown, LogTruncated, LogReplaced].some((fault) => error instanceof fault);
}

/** The topic at the address of the control log. It opens when first used. */
export function limitTopicAt(logUrl: string, options: Omit<LimitTopicOptions, 'open'>): LimitTopic {
  const { topic } = options;
  const keep = { keepSeconds: limitTopicKeepSeconds[topic], allowTrimmed: true, steadyTime: true };
  // A record that is lost with the machine is followed by a larger one, so no gateway waits for a flush.
  return new LimitTopic({
    ...options,
    open: (mustExist) => openLog(logUrl, { topic }, { ...keep, mustExist, durability: 'normal' }),
  });
}
