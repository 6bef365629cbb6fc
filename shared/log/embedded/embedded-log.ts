/**
 * A log without a broker. Each topic is one SQLite file, which any number of processes on one machine can use. An
 * acknowledged append is on disk, and all processes see the same order. The event loop never blocks on a lock, and pending
 * appends share one transaction. A file that was replaced, removed, truncated or damaged is reported and not read any
 * further.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { monotonicMs, RemovalTime, wallClockMs } from '../../runtime/clock.ts';
import { Backoff } from '../../runtime/retry.ts';
import {
  DatabaseBusy,
  DatabaseCorrupt,
  DatabaseUnwritable,
  NativeModuleMissing,
} from '../../runtime/sqlite.ts';
import { Waiters } from '../../runtime/waiters.ts';
import {
  AppendUnknown,
  type LogBatch,
  type LogRecord,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
  type TailOptions,
  type TimedLog,
  type TopicAddress,
} from '../core/control-log.ts';
import { CommitUnclear, EmbeddedFile, type NewRecord } from './embedded-file.ts';
import { FileWatch } from './file-watch.ts';

const recordsMaxDefault = 500;
const bytesMaxDefault = 1024 * 1024;
/** Maximum number of appends written in one transaction. */
const groupRecordsMax = 100;
const groupBytesMax = 4 * 1024 * 1024;
/** Maximum number of pending appends. Further ones are rejected. */
const queueRecordsMax = 10_000;
const queueBytesMax = 64 * 1024 * 1024;
/** Longest pause in ms before a locked file is tried again. */
const pauseMsMax = 32;

export interface EmbeddedLogOptions {
  readonly folder: string;
  readonly address: TopicAddress;
  /** Time in ms for which a locked file is retried before `LogUnavailable` is thrown. The default is 10 s. */
  readonly lockDeadlineMs?: number;
  /** Interval in ms at which a waiting tail checks the file, in case the system reports no change. The default is 100 ms. */
  readonly pollMs?: number;
  /** `normal` appends survive a crash of all processes but not of the machine. Use it for topics whose loss is harmless. */
  readonly durability?: 'full' | 'normal';
  /** Age in seconds at which records may be removed. If omitted, records are kept forever. */
  readonly keepSeconds?: number;
  /** Shortest time between two trims by one process, in seconds. The default is 10 s. */
  readonly trimEverySeconds?: number;
  /** Lets a tail that requests removed records start at the first remaining one, instead of throwing `LogTruncated`. */
  readonly allowTrimmed?: boolean;
  /** Rejects with `LogUnavailable` if the log does not exist, instead of creating it. */
  readonly mustExist?: boolean;
  /** Clock that returns the wall-clock time in ms since 1970. */
  readonly now?: () => number;
  /** Clock that returns the time since the machine started, in ms. */
  readonly monotonicMs?: () => number;
}

const defaults = {
  lockDeadlineMs: 10_000,
  pollMs: 100,
  trimEverySeconds: 10,
  now: wallClockMs,
  monotonicMs,
};

type Settings = EmbeddedLogOptions & typeof defaults;

/** Error of the last append in each folder, if it failed. It is never old, because some topic is written every second. */
const writeFaults = new Map<string, string>();

export function embeddedLogPath(folder: string, { topic, partition = 0 }: TopicAddress): string {
  return join(folder, partition > 0 ? `${topic}-${partition}.db` : `${topic}.db`);
}

/** Opens a topic's log, creating its folder and file if they are missing. Rejects with `LogUnavailable` or `LogReplaced`. */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<TimedLog> {
  const settings = { ...defaults, ...options };
  const path = embeddedLogPath(options.folder, options.address);
  const { durability = 'full', allowTrimmed = false } = options;
  const { monotonicMs } = settings;
  if (options.mustExist && !existsSync(path)) throw new LogUnavailable(`there is no ${path}`);
  const open = () => new EmbeddedFile({ path, durability, allowTrimmed, monotonicMs });
  return new EmbeddedLog(await untilUnlocked(open, path, settings.lockDeadlineMs), path, settings);
}

interface PendingAppend extends NewRecord {
  readonly untilMs: number;
  readonly resolve: (offset: number) => void;
  readonly reject: (error: unknown) => void;
}

class EmbeddedLog implements TimedLog {
  readonly #file: EmbeddedFile;
  readonly #path: string;
  readonly #settings: Settings;
  readonly #waiters = new Waiters();
  readonly #watch: FileWatch;
  readonly #queue: PendingAppend[] = [];
  #queueBytes = 0;
  #writing = false;
  #closed = false;
  #seenEnd = -1;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;
  readonly #removal: RemovalTime;

  constructor(file: EmbeddedFile, path: string, settings: Settings) {
    this.#removal = new RemovalTime(settings.monotonicMs);
    // Start from the last record's time, because this process's own clock may be ahead, which would remove records too early.
    const lastMs = file.lastMs();
    if (lastMs !== undefined) this.#removal.limit(lastMs);
    this.#file = file;
    this.#path = path;
    this.#settings = settings;
    const isAwaited = () => this.#waiters.size > 0;
    this.#watch = new FileWatch({ path, pollMs: settings.pollMs, isAwaited, look: () => this.#look() });
  }

  append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    if (this.#closed) return Promise.reject(closedError(this.#path));
    if (this.#queue.length >= queueRecordsMax || this.#queueBytes + value.length > queueBytesMax)
      return Promise.reject(new LogUnavailable(`too many appends wait for ${this.#path}`));
    return new Promise((resolve, reject) => {
      const untilMs = performance.now() + this.#settings.lockDeadlineMs;
      const copy = { value: Buffer.from(value), signature: signature && Buffer.from(signature) };
      this.#queue.push({ ...copy, untilMs, resolve, reject });
      this.#queueBytes += value.length;
      if (this.#writing) return;
      this.#writing = true;
      // Write in a later turn, so that a caller that appends continuously cannot starve the event loop.
      setImmediate(() => void this.#writeAll());
    });
  }

  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    const { signal, recordsMax = recordsMaxDefault, bytesMax = bytesMaxDefault } = options;
    let next = options.from;
    const ended = () => this.#closed || signal?.aborted === true;
    const read = () => (ended() ? [] : this.#read(next, recordsMax, bytesMax));
    while (!ended()) {
      const seen = this.#waiters.changes;
      const records = await untilUnlocked(read, this.#path, this.#settings.lockDeadlineMs);
      options.onRead?.();
      const last = records.at(-1);
      if (!last) {
        this.#watch.start();
        this.#sawEnd(next);
        await this.#waiters.changedSince(seen, signal);
        continue;
      }
      next = last.offset + 1;
      yield { records, nextOffset: next };
      // During a long catch-up, let other work on the event loop have a turn.
      await nextTurn();
    }
  }

  end(): Promise<number> {
    return this.#ask(() => this.#file.end());
  }

  offsetAt(atMs: number): Promise<number> {
    return this.#ask(() => this.#file.offsetAt(atMs));
  }

  get writeFault(): string | undefined {
    return writeFaults.get(this.#settings.folder);
  }

  #ask<Answer>(question: () => Answer): Promise<Answer> {
    const ask = () => {
      if (this.#closed) throw closedError(this.#path);
      this.#file.checkInPlace();
      return question();
    };
    return untilUnlocked(ask, this.#path, this.#settings.lockDeadlineMs);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch.close();
    this.#refuse(this.#queue.length, closedError(this.#path));
    this.#waiters.wake();
    this.#file.close();
  }

  #read(from: number, recordsMax: number, bytesMax: number): LogRecord[] {
    this.#file.checkInPlace();
    return this.#file.read(from, recordsMax, bytesMax);
  }

  /** Wakes waiting tails if there is a new record, or a fault that their next read will report. */
  #look(): void {
    if (this.#waiters.size === 0) return;
    try {
      this.#file.checkInPlace();
      this.#sawEnd(this.#file.end());
    } catch (error) {
      if (!(error instanceof DatabaseBusy)) this.#waiters.wake();
    }
  }

  /** Records the file's end, and wakes waiting tails if it moved. Reads call this too, so that truncation is noticed. */
  #sawEnd(end: number): void {
    if (end === this.#seenEnd) return;
    this.#seenEnd = end;
    this.#waiters.wake();
  }

  async #writeAll(): Promise<void> {
    const backoff = lockBackoff();
    while (this.#queue.length > 0) {
      const group = this.#group();
      try {
        this.#write(group);
        writeFaults.delete(this.#settings.folder);
        backoff.reset();
        if (this.#queue.length > 0) await nextTurn();
      } catch (error) {
        if (error instanceof DatabaseBusy) {
          const late = countLeading(this.#queue, ({ untilMs }) => performance.now() > untilMs);
          this.#refuse(late, lockedError(this.#path, error));
          await backoff.pause();
        } else {
          if (error instanceof DatabaseUnwritable) writeFaults.set(this.#settings.folder, error.message);
          this.#refuse(group.length, toLogError(error, this.#path));
        }
      }
    }
    this.#writing = false;
  }

  /** Returns the appends for the next transaction, oldest first. */
  #group(): readonly PendingAppend[] {
    let bytes = 0;
    const fit = countLeading(this.#queue, ({ value }) => {
      bytes += value.length;
      return bytes <= groupBytesMax;
    });
    return this.#queue.slice(0, Math.min(Math.max(fit, 1), groupRecordsMax));
  }

  #write(group: readonly PendingAppend[]): void {
    const { first, atMs } = this.#file.append(group, this.#settings.now());
    for (const [index, { resolve }] of this.#take(group.length).entries()) resolve(first + index);
    this.#waiters.wake();
    this.#trim(atMs);
  }

  /** Removes old records if the last trim was long enough ago. `logMs` is the time of the last record. */
  #trim(logMs: number): void {
    const { keepSeconds, trimEverySeconds, monotonicMs } = this.#settings;
    const nowMs = monotonicMs();
    if (keepSeconds === undefined || nowMs < this.#trimmedAtMs + trimEverySeconds * 1000) return;
    this.#trimmedAtMs = nowMs;
    try {
      this.#file.trim(this.#removal.limit(logMs) - keepSeconds * 1000);
    } catch {
      // Ignore the fault, because the append succeeded. The next trim tries again, and the next append reports a lasting
      // fault.
    }
  }

  #refuse(count: number, error: Error): void {
    for (const { reject } of this.#take(count)) reject(error);
  }

  #take(count: number): PendingAppend[] {
    const taken = this.#queue.splice(0, count);
    for (const { value } of taken) this.#queueBytes -= value.length;
    return taken;
  }
}

/** Retries an operation while another process locks the file, up to a deadline. */
async function untilUnlocked<Result>(
  operation: () => Result,
  path: string,
  deadlineMs: number,
): Promise<Result> {
  const untilMs = performance.now() + deadlineMs;
  const backoff = lockBackoff();
  for (;;) {
    try {
      return operation();
    } catch (error) {
      if (!(error instanceof DatabaseBusy)) throw toLogError(error, path);
      if (performance.now() > untilMs) throw lockedError(path, error);
    }
    await backoff.pause();
  }
}

/** Back-off with random pauses, so that processes that wait for the same lock do not retry at the same time. */
function lockBackoff(): Backoff {
  return new Backoff({ minMs: 2, maxMs: pauseMsMax });
}

function countLeading<Item>(items: readonly Item[], holds: (item: Item) => boolean): number {
  const end = items.findIndex((item) => !holds(item));
  return end === -1 ? items.length : end;
}

function closedError(path: string): LogUnavailable {
  return new LogUnavailable(`${path} is closed`);
}

function lockedError(path: string, cause: Error): LogUnavailable {
  return new LogUnavailable(`${path} stayed locked by another process for too long; nothing was written`, {
    cause,
  });
}

function toLogError(error: unknown, path: string): Error {
  if (!(error instanceof Error)) return new LogUnavailable(`${path} cannot be used: ${String(error)}`);
  if (error instanceof LogReplaced || error instanceof LogTruncated || error instanceof LogUnavailable)
    return error;
  if (error instanceof NativeModuleMissing) return error;
  const cause = { cause: error };
  if (error instanceof CommitUnclear) return new AppendUnknown(error.message, cause);
  if (error instanceof DatabaseCorrupt)
    return new LogUnavailable(
      `${error.message}: stop every process that uses it, keep a copy, and put a backup in its place`,
      cause,
    );
  return new LogUnavailable(`${path} cannot be used: ${error.message}`, cause);
}
