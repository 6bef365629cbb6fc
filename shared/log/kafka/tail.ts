/**
 * Reads one partition from an offset until aborted. The offset moves only past delivered records, and the log is checked
 * after every fault, so no record is skipped or repeated without an error. Each tail has its own connection, because fetches
 * block it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type LogBatch,
  type LogRecord,
  LogTruncated,
  LogUnreadable,
  type TailOptions,
} from '../core/control-log.ts';
import type { Leader } from './cluster.ts';
import type { FetchedPartition, KafkaConnection } from './connection.ts';
import { KafkaFault } from './errors.ts';
import type { KafkaPartition } from './partition.ts';
import { parseBatches, type RecordBatch } from './record-batches.ts';

const recordsMaxDefault = 500;
const bytesMaxDefault = 1024 * 1024;
/** Maximum size of one response in bytes, unless its first batch is larger. */
const fetchBytesMax = 1024 * 1024;
const fetchWaitMs = 2000;
/** Time in ms without a fetch after which the log is checked again. */
const idleMsMax = 5000;
/** Time in ms without records after which other brokers are asked who leads the partition. */
const quietMsMax = 3000;
/** Number of consecutive responses without records, although the broker has some, that count as a fault. */
const emptyResponsesMax = 20;

export interface KafkaTailOptions extends TailOptions {
  readonly signal: AbortSignal;
  /** Whether the tail may start at the first remaining record if the requested one was deleted. */
  readonly allowTrimmed: boolean;
  /** Time in ms for which a fault may last before it is reported. */
  readonly timeoutMs: number;
}

/** Yields the records of one partition until the signal aborts. Throws `LogUnavailable`, `LogTruncated` or `LogReplaced`. */
export async function* tailPartition(
  partition: KafkaPartition,
  options: KafkaTailOptions,
): AsyncGenerator<LogBatch> {
  const { recordsMax = recordsMaxDefault, bytesMax = bytesMaxDefault, signal } = options;
  const reader = new Reader(partition, options);
  const onSkipped = (batch: RecordBatch) => partition.cluster.readings.skipped(partition.target, batch);
  try {
    while (!signal.aborted) {
      const fetched = await untilAborted(reader.fetch(), signal);
      if (!fetched || signal.aborted) return;
      const before = reader.next;
      for (const batch of deliveries(fetched, reader.next, recordsMax, bytesMax, onSkipped)) {
        reader.next = batch.nextOffset;
        partition.recordRead(batch.nextOffset);
        yield batch;
        if (signal.aborted) return;
        // During a long catch-up, let other work on the event loop have a turn.
        await nextTurn();
      }
      reader.watchProgress(before, fetched);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    reader.close();
  }
}

class Reader {
  next: number;
  readonly #partition: KafkaPartition;
  readonly #options: KafkaTailOptions;
  readonly #close = () => this.close();
  #connection: KafkaConnection | undefined;
  #leader: Leader | undefined;
  #fetchedMs = 0;
  /** Monotonic time in ms at which records last arrived or other brokers were last asked who leads. */
  #provenMs = 0;
  #emptyResponses = 0;

  constructor(partition: KafkaPartition, options: KafkaTailOptions) {
    this.#partition = partition;
    this.#options = options;
    this.next = options.from;
    options.signal.addEventListener('abort', this.#close, { once: true });
  }

  /** Returns the broker's next response, which may be without records. */
  fetch(): Promise<FetchedPartition> {
    const { signal, timeoutMs } = this.#options;
    const request = async () => {
      try {
        return await this.#request();
      } catch (error) {
        this.#drop();
        throw error;
      }
    };
    return this.#partition.retryUntilDeadline(request, { timeoutMs, signal });
  }

  async #request(): Promise<FetchedPartition> {
    const connection = await this.#connected();
    const fetched = await connection.fetch({
      ...this.#partition.target,
      offset: this.next,
      waitMs: fetchWaitMs,
      bytesMax: fetchBytesMax,
    });
    this.#fetchedMs = performance.now();
    this.#partition.cluster.readings.succeeded(this.#partition.target);
    this.#options.onRead?.();
    if (fetched.recordSet.length > 0) this.#provenMs = this.#fetchedMs;
    else this.#askWhoLeads(connection);
    // Records were deleted during the fetch, which Kafka does not report. It reports only those deleted before a fetch.
    if (fetched.startOffset > this.next && fetched.recordSet.length === 0)
      throw new KafkaFault('OFFSET_OUT_OF_RANGE', { kind: 'answered' });
    return fetched;
  }

  /**
   * Checks for a deposed leader, which may respond to every fetch without records. If no records have arrived for a while,
   * other brokers are asked who leads, without delaying the next fetch. The connection to a deposed leader is closed.
   */
  #askWhoLeads(connection: KafkaConnection): void {
    const { cluster, target } = this.#partition;
    const leader = this.#leader;
    if (leader === undefined || this.#fetchedMs - this.#provenMs < quietMsMax) return;
    this.#provenMs = this.#fetchedMs;
    void cluster.isDeposed(leader, target).then((isDeposed) => {
      if (!isDeposed || !connection.isOpen) return;
      this.#partition.invalidate();
      connection.destroy();
    });
  }

  async #connected(): Promise<KafkaConnection> {
    const { cluster, target } = this.#partition;
    const idleMs = performance.now() - this.#fetchedMs;
    if (this.#leader && this.#partition.leadsElsewhere(this.#leader)) this.#drop();
    if (this.#connection?.isOpen && idleMs < idleMsMax) return this.#connection;
    if (!this.#connection?.isOpen) {
      this.#leader = await cluster.leader(target);
      this.#connection = await cluster.dial(this.#leader);
      // The metadata may still name a deposed leader, so ask the other brokers after the first response without records.
      this.#provenMs = 0;
      if (this.#options.signal.aborted) this.close();
    }
    const connection = this.#connection ?? failClosed();
    const { start, end } = await this.#partition.check();
    if (this.next > end) throw this.#truncated(`ends at offset ${end}, before ${this.next}`);
    if (this.next >= start) return connection;
    if (!this.#options.allowTrimmed) throw this.#truncated(`begins at offset ${start}, after ${this.next}`);
    this.next = start;
    return connection;
  }

  /** Throws if reading makes no progress. A broker returns its first batch whole, so responses with records must advance. */
  watchProgress(before: number, { highWatermark }: FetchedPartition): void {
    const stuck = this.next === before && highWatermark > this.next;
    this.#emptyResponses = stuck ? this.#emptyResponses + 1 : 0;
    if (this.#emptyResponses < emptyResponsesMax) return;
    throw new LogUnreadable(`${this.#partition.name} on Kafka returns no record at offset ${this.next}`);
  }

  #truncated(how: string): LogTruncated {
    return new LogTruncated(`${this.#partition.name} on Kafka ${how}`);
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
    this.#leader = undefined;
  }

  close(): void {
    this.#options.signal.removeEventListener('abort', this.#close);
    this.#drop();
  }
}

function failClosed(): never {
  throw new KafkaFault('CLOSED', { kind: 'unsent' });
}

/** Resolves to undefined once the signal aborts. The promise itself continues. */
function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    const aborted = () => resolve(undefined);
    signal.addEventListener('abort', aborted, { once: true });
    const settled = () => signal.removeEventListener('abort', aborted);
    promise.then(
      (value) => {
        settled();
        resolve(value);
      },
      (error: unknown) => {
        settled();
        reject(error);
      },
    );
  });
}

/** Splits a response into batches of bounded size, decoding each on demand. */
function* deliveries(
  { recordSet }: FetchedPartition,
  from: number,
  recordsMax: number,
  bytesMax: number,
  onSkipped: (batch: RecordBatch) => void,
): Generator<LogBatch> {
  let records: LogRecord[] = [];
  let bytes = 0;
  let nextOffset = from;
  for (const batch of parseBatches(recordSet)) {
    if (batch.unreadable !== undefined) onSkipped(batch);
    for (const record of batch.records) {
      if (record.offset < from) continue;
      const full = records.length >= recordsMax || bytes + record.value.length > bytesMax;
      if (full && records.length > 0) {
        yield { records, nextOffset };
        [records, bytes] = [[], 0];
      }
      records.push(record);
      bytes += record.value.length;
      nextOffset = record.offset + 1;
    }
    nextOffset = Math.max(nextOffset, batch.nextOffset);
  }
  if (nextOffset > from) yield { records, nextOffset };
}
