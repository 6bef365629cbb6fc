/**
 * Reads one partition from a position on, for ever. The position moves only with what was delivered; after every fault the
 * log is compared with what it was before reading goes on, so that nothing is skipped or repeated without an error.
 * Each tail has a connection of its own, on which the broker holds a fetch back until there is something to read.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type LogBatch,
  type LogRecord,
  LogTruncated,
  LogUnavailable,
  type TailOptions,
} from '../core/control-log.ts';
import { signatureHeader } from './appender.ts';
import type { Leader } from './cluster.ts';
import type { FetchedMessage, FetchedPartition, KafkaConnection } from './connection.ts';
import { KafkaFault } from './errors.ts';
import type { KafkaPartition } from './partition.ts';

const recordsMaxDefault = 500;
const bytesMaxDefault = 1024 * 1024;
/** A whole answer is decoded in one turn of the event loop. */
const fetchBytesMax = 1024 * 1024;
const fetchWaitMs = 2000;
/** After a longer pause between two fetches the log is compared again. */
const idleMsMax = 5000;
/** Answers without a record, though the broker says that there are some, until that is taken for a fault. */
const emptyAnswersMax = 20;

export interface KafkaTailOptions extends TailOptions {
  readonly signal: AbortSignal;
  /** Begin at the first record kept, where the wanted one is no longer. */
  readonly allowTrimmed: boolean;
  /** How long a fault may last before it is reported, ms. */
  readonly patienceMs: number;
}

/** Ends when the signal aborts. Throws LogUnavailable, LogTruncated or LogReplaced. */
export async function* tailPartition(
  partition: KafkaPartition,
  options: KafkaTailOptions,
): AsyncGenerator<LogBatch> {
  const { recordsMax = recordsMaxDefault, bytesMax = bytesMaxDefault, signal } = options;
  const reader = new Reader(partition, options);
  try {
    while (!signal.aborted) {
      const fetched = await untilAborted(reader.fetch(), signal);
      if (!fetched || signal.aborted) return;
      for (const batch of batchesOf(fetched, reader.next, recordsMax, bytesMax)) {
        reader.next = batch.nextOffset;
        partition.sawRead(batch.nextOffset);
        yield batch;
        if (signal.aborted) return;
        // A long catch-up must leave the event loop its turns.
        await nextTurn();
      }
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
  #emptyAnswers = 0;

  constructor(partition: KafkaPartition, options: KafkaTailOptions) {
    this.#partition = partition;
    this.#options = options;
    this.next = options.from;
    options.signal.addEventListener('abort', this.#close, { once: true });
  }

  /** The next answer of the broker, which may hold no record. */
  fetch(): Promise<FetchedPartition> {
    const { signal, patienceMs } = this.#options;
    const ask = async () => {
      try {
        return await this.#ask();
      } catch (error) {
        this.#drop();
        throw error;
      }
    };
    return this.#partition.patiently(ask, { deadlineMs: patienceMs, signal });
  }

  async #ask(): Promise<FetchedPartition> {
    const connection = await this.#connected();
    const fetched = await connection.fetch({
      ...this.#partition.place,
      offset: this.next,
      waitMs: fetchWaitMs,
      bytesMax: fetchBytesMax,
    });
    this.#fetchedMs = performance.now();
    // Fetching behind the start is an error of its own; this is the deletion that overtakes a fetch.
    if (Number(fetched.lastStartOffset) > this.next && fetched.messages.length === 0)
      throw new KafkaFault('OFFSET_OUT_OF_RANGE', { kind: 'answered' });
    this.#watchProgress(fetched);
    return fetched;
  }

  async #connected(): Promise<KafkaConnection> {
    const { cluster, place } = this.#partition;
    const idleMs = performance.now() - this.#fetchedMs;
    // An old leader that was cut off answers each fetch with nothing, for ever.
    if (this.#leader && this.#partition.leadsElsewhere(this.#leader)) this.#drop();
    if (this.#connection?.isOpen && idleMs < idleMsMax) return this.#connection;
    if (!this.#connection?.isOpen) {
      this.#leader = await cluster.leader(place);
      this.#connection = await cluster.dial(this.#leader);
      if (this.#options.signal.aborted) this.close();
    }
    const connection = this.#connection ?? failClosed();
    const { start, end } = await this.#partition.check();
    if (this.next > end) throw this.#truncated(`ends at offset ${end}, before ${this.next}`);
    if (this.next >= start) return connection;
    if (!this.#options.allowTrimmed) throw this.#truncated(`begins at offset ${start}, behind ${this.next}`);
    this.next = start;
    return connection;
  }

  /** Only compaction, which checking the topic rules out, leaves batches without records. */
  #watchProgress({ messages, highWatermark }: FetchedPartition): void {
    const stuck = messages.length === 0 && Number(highWatermark) > this.next;
    this.#emptyAnswers = stuck ? this.#emptyAnswers + 1 : 0;
    if (this.#emptyAnswers < emptyAnswersMax) return;
    throw new LogUnavailable(`${this.#partition.name} on Kafka gives no record at offset ${this.next}`);
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

/** Resolves with nothing once the signal aborts; what was being waited for ends by itself. */
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

/** An answer in batches of bounded size. Markers of transactions are passed over, and still move the position. */
function* batchesOf(
  { messages }: FetchedPartition,
  from: number,
  recordsMax: number,
  bytesMax: number,
): Generator<LogBatch> {
  let records: LogRecord[] = [];
  let bytes = 0;
  let nextOffset = from;
  for (const message of messages) {
    const offset = Number(message.offset);
    if (offset < from) continue;
    if (message.isControlRecord !== true) {
      const record = recordOf(message);
      const full = records.length >= recordsMax || bytes + record.value.length > bytesMax;
      if (full && records.length > 0) {
        yield { records, nextOffset };
        [records, bytes] = [[], 0];
      }
      records.push(record);
      bytes += record.value.length;
    }
    nextOffset = offset + 1;
  }
  if (nextOffset > from) yield { records, nextOffset };
}

function recordOf({ offset, value, headers }: FetchedMessage): LogRecord {
  const header = headers?.[signatureHeader];
  // Only one signature counts; with several it is as if there were none.
  const signature = Buffer.isBuffer(header) ? header : null;
  return { offset: Number(offset), value: value ?? Buffer.alloc(0), signature };
}
