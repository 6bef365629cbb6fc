/**
 * Appends records to one partition in order. Pending appends are sent in groups, one request at a time. An append that was
 * certainly not written is retried until a deadline. One that may have been written is reported as `AppendUnknown` and never
 * retried. Its connection is closed, so that nothing is sent late.
 */
import { AppendUnknown, LogUnavailable } from '../core/control-log.ts';
import type { KafkaConnection, NewMessage } from './connection.ts';
import { KafkaFault, produceOutcome } from './errors.ts';
import type { KafkaPartition } from './partition.ts';
import { signatureHeader } from './record-batches.ts';
import { closedError, retryBackoff, unavailableError } from './retry.ts';

/** Bounds on a group of appends. A record batch must be smaller than the topic's largest message, 1 MiB. */
const groupRecordsMax = 500;
const groupBytesMax = 512 * 1024;
/** Bounds on pending appends. Further appends are rejected. */
const queueRecordsMax = 10_000;
const queueBytesMax = 64 * 1024 * 1024;
/** Maximum number of bytes that a record takes in a batch in addition to its value and signature. */
const recordOverheadBytes = 100;

interface PendingAppend {
  readonly message: NewMessage;
  readonly bytes: number;
  readonly deadlineMs: number;
  readonly resolve: (offset: number) => void;
  readonly reject: (error: unknown) => void;
}

interface Producer {
  /** Value of the partition's `epoch` when this connection was checked. */
  readonly epoch: number;
  readonly connection: KafkaConnection;
  readonly replicas: number;
}

export class KafkaAppender {
  readonly #partition: KafkaPartition;
  readonly #signal: AbortSignal;
  readonly #timeoutMs: number;
  readonly #queue: PendingAppend[] = [];
  #queueBytes = 0;
  #writing = false;
  #producer: Producer | undefined;

  /** `timeoutMs` is the time for which an unsent append is retried. When `signal` aborts, pending appends are rejected. */
  constructor(partition: KafkaPartition, signal: AbortSignal, timeoutMs: number) {
    this.#partition = partition;
    this.#signal = signal;
    this.#timeoutMs = timeoutMs;
    signal.addEventListener('abort', () => this.#end(), { once: true });
  }

  append(value: Uint8Array, signature: Uint8Array | null): Promise<number> {
    if (this.#signal.aborted) return Promise.reject(closedError(this.#partition.name));
    const bytes = value.length + (signature?.length ?? 0) + recordOverheadBytes;
    if (this.#queue.length >= queueRecordsMax || this.#queueBytes + bytes > queueBytesMax)
      return Promise.reject(new LogUnavailable(`too many appends are pending for ${this.#partition.name}`));
    return new Promise((resolve, reject) => {
      const headers = signature ? { [signatureHeader]: Buffer.from(signature) } : {};
      const message = { value: Buffer.from(value), headers };
      const deadlineMs = performance.now() + this.#timeoutMs;
      this.#queue.push({ message, bytes, deadlineMs, resolve, reject });
      this.#queueBytes += bytes;
      if (this.#writing) return;
      this.#writing = true;
      queueMicrotask(() => void this.#writeAll());
    });
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#takeGroup();
      try {
        const first = await this.#write(group);
        for (const [index, { resolve }] of group.entries()) resolve(first + index);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#writing = false;
  }

  #takeGroup(): PendingAppend[] {
    let bytes = 0;
    let count = 0;
    for (const pending of this.#queue.slice(0, groupRecordsMax)) {
      bytes += pending.bytes;
      if (count > 0 && bytes > groupBytesMax) break;
      count++;
    }
    const group = this.#queue.splice(0, count);
    for (const { bytes } of group) this.#queueBytes -= bytes;
    return group;
  }

  /** Sends pending appends. Resolves to the first offset. Rejects with `AppendUnknown`, `LogUnavailable` or `LogReplaced`. */
  async #write(group: readonly PendingAppend[]): Promise<number> {
    const deadlineMs = group[0]?.deadlineMs ?? 0;
    const backoff = retryBackoff();
    for (;;) {
      const { connection, replicas } = await this.#connection(deadlineMs);
      try {
        const messages = group.map(({ message }) => message);
        const offset = await connection.produce(this.#partition.target, messages);
        this.#partition.recordAppend(offset, offset + group.length);
        return offset;
      } catch (error) {
        this.#abandon();
        if (!(error instanceof KafkaFault)) throw error;
        this.#throwUnlessRetryable(error, replicas, deadlineMs);
      }
      await backoff.pause(this.#signal);
    }
  }

  #throwUnlessRetryable(fault: KafkaFault, replicas: number, deadlineMs: number): void {
    const { name } = this.#partition;
    const outcome = produceOutcome(fault, replicas);
    if (outcome === 'unknown')
      throw new AppendUnknown(`the append to ${name} may be in the log or not: ${fault.message}`, {
        cause: fault,
      });
    if (outcome === 'refused' || performance.now() > deadlineMs) throw unavailableError(name, fault);
  }

  /** Connects to the leader and checks that the log is still the same. Rejects with `LogUnavailable` or `LogReplaced`. */
  async #connection(deadlineMs: number): Promise<Producer> {
    const { cluster, target, epoch } = this.#partition;
    if (this.#producer?.connection.isOpen && this.#producer.epoch === epoch) return this.#producer;
    this.#producer?.connection.destroy();
    const timeoutMs = Math.max(deadlineMs - performance.now(), 0);
    const dial = async () => {
      const { epoch } = this.#partition;
      const leader = await cluster.leader(target);
      const connection = await cluster.dial(leader);
      try {
        await this.#partition.check();
      } catch (error) {
        connection.destroy();
        throw error;
      }
      return { connection, replicas: leader.replicas, epoch };
    };
    const producer = await this.#partition.retryUntilDeadline(dial, { timeoutMs, signal: this.#signal });
    this.#producer = producer;
    if (!this.#signal.aborted) return producer;
    this.#abandon();
    throw closedError(this.#partition.name);
  }

  #abandon(): void {
    this.#partition.invalidate();
    this.#producer?.connection.destroy();
    this.#producer = undefined;
  }

  #end(): void {
    for (const { reject } of this.#queue.splice(0)) reject(closedError(this.#partition.name));
    this.#queueBytes = 0;
    this.#producer?.connection.destroy();
    this.#producer = undefined;
  }
}
