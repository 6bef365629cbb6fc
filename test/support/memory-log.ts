/**
 * An in-memory log for tests and simulations in one process. All MemoryLogs on one MemoryTopic are clients of the same log.
 * They keep every promise of ControlLog except durability. Callers choose a fault per append, so a seeded simulation can
 * replay any run.
 */
import {
  AppendUnknown,
  type LogBatch,
  type LogRecord,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
  type TailOptions,
  type TimedLog,
} from '../../shared/log/core/control-log.ts';
import { Waiters } from '../../shared/runtime/waiters.ts';

/**
 * How one append fails:
 * - `lost`: the record never reaches the log, and the writer does not learn of it;
 * - `duplicated`: the record is stored twice;
 * - `delayed`: the record reaches the log when `MemoryTopic.release` is called, and the writer does not learn of it;
 * - `ack-lost`: the record is in the log, but the writer does not learn of it;
 * - `refused`: the record never reaches the log, and the writer learns of it.
 */
export type AppendFault = 'none' | 'lost' | 'duplicated' | 'delayed' | 'ack-lost' | 'refused';

const recordsMaxDefault = 500;
const bytesMaxDefault = 1024 * 1024;

/** The records that all clients share, with methods to damage them. */
export class MemoryTopic {
  #records: LogRecord[] = [];
  #delayed: LogRecord[] = [];
  /** Timestamp of each record, in ms since 1970. */
  #timesMs: number[] = [];
  #generation = 0;
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Clients that wait for a change. Every change wakes them. */
  readonly waiters = new Waiters();

  get generation(): number {
    return this.#generation;
  }
  get end(): number {
    return this.#records.length;
  }
  /** Number of appends that wait for `release`. */
  get delayed(): number {
    return this.#delayed.length;
  }

  /** Adds a record as if a client had appended it. Returns its offset. */
  add(value: Uint8Array, signature: Uint8Array | null = null): number {
    const offset = this.#records.length;
    const atMs = this.#now();
    this.#records.push({ ...copy(offset, value, signature), atMs });
    this.#timesMs.push(atMs);
    this.waiters.wake();
    return offset;
  }

  delay(value: Uint8Array, signature: Uint8Array | null): void {
    this.#delayed.push(copy(-1, value, signature));
  }

  /** Appends the delayed record with this index now. */
  release(index = 0): void {
    for (const { value, signature } of this.#delayed.splice(index, 1)) this.add(value, signature);
  }

  /** Drops the records from this offset on. A real log does so if a replica that lags is elected leader. */
  truncate(end: number): void {
    this.#records.length = Math.min(end, this.#records.length);
    this.#timesMs.length = this.#records.length;
    this.waiters.wake();
  }

  replace(): void {
    this.#records = [];
    this.#timesMs = [];
    this.#generation++;
    this.waiters.wake();
  }

  offsetAt(atMs: number): number {
    const found = this.#timesMs.findIndex((timeMs) => timeMs >= atMs);
    return found === -1 ? this.end : found;
  }

  read(from: number, recordsMax: number, bytesMax: number): LogRecord[] {
    const records: LogRecord[] = [];
    let bytes = 0;
    for (let offset = from; offset < this.#records.length && records.length < recordsMax; offset++) {
      const record = this.#records[offset] as LogRecord;
      bytes += record.value.length;
      if (records.length > 0 && bytes > bytesMax) break;
      records.push(record);
    }
    return records;
  }
}

function copy(offset: number, value: Uint8Array, signature: Uint8Array | null): LogRecord {
  return { offset, value: Buffer.from(value), signature: signature && Buffer.from(signature) };
}

export interface MemoryLogOptions {
  readonly fault?: (value: Uint8Array) => AppendFault;
}

export class MemoryLog implements TimedLog {
  readonly #topic: MemoryTopic;
  readonly #generation: number;
  readonly #fault: (value: Uint8Array) => AppendFault;
  #closed = false;

  constructor(topic: MemoryTopic, options: MemoryLogOptions = {}) {
    this.#topic = topic;
    this.#generation = topic.generation;
    this.#fault = options.fault ?? (() => 'none');
  }

  async append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    this.#check();
    const fault = this.#fault(value);
    switch (fault) {
      case 'none':
        return this.#topic.add(value, signature);
      case 'duplicated':
        this.#topic.add(value, signature);
        return this.#topic.add(value, signature);
      case 'refused':
        throw new LogUnavailable('the log refused this append');
      case 'ack-lost':
        this.#topic.add(value, signature);
        break;
      case 'delayed':
        this.#topic.delay(value, signature);
        break;
      case 'lost':
        break;
      default:
        fault satisfies never;
    }
    throw new AppendUnknown('this append got no response');
  }

  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    const { signal, recordsMax = recordsMaxDefault, bytesMax = bytesMaxDefault } = options;
    let next = options.from;
    while (!this.#closed && !signal?.aborted) {
      const seen = this.#topic.waiters.changes;
      this.#checkReplaced();
      if (next > this.#topic.end)
        throw new LogTruncated(`the log ends at offset ${this.#topic.end}, before ${next}`);
      const records = this.#topic.read(next, recordsMax, bytesMax);
      options.onRead?.();
      if (records.length === 0) {
        await this.#topic.waiters.changedSince(seen, signal);
        continue;
      }
      next += records.length;
      yield { records, nextOffset: next };
    }
  }

  async end(): Promise<number> {
    this.#check();
    return this.#topic.end;
  }

  async offsetAt(atMs: number): Promise<number> {
    this.#check();
    return this.#topic.offsetAt(atMs);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#topic.waiters.wake();
  }

  #check(): void {
    if (this.#closed) throw new LogUnavailable('the log is closed');
    this.#checkReplaced();
  }

  #checkReplaced(): void {
    if (this.#topic.generation !== this.#generation) throw new LogReplaced('the log was replaced');
  }
}
