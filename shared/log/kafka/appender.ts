/**
 * Appends to one partition: in order, one request in flight, those that wait together in one request. What surely was not
 * written is tried again for a while; what may have been written is reported as AppendUnknown and never tried again, and
 * its connection is given up, so that nothing can leave late from here. Who appended decides what to do then.
 */
import { AppendUnknown, LogUnavailable } from '../core/control-log.ts';
import type { KafkaConnection, NewMessage } from './connection.ts';
import { KafkaFault, outcomeOf } from './errors.ts';
import type { KafkaPartition } from './partition.ts';
import { backOff, closedError, unavailable } from './retry.ts';

/** The header that carries a record's Ed25519 signature. */
export const signatureHeader = 'headgate-signature';

/** A batch of records has to stay below the largest message of the topic, 1 MiB. */
const groupRecordsMax = 500;
const groupBytesMax = 512 * 1024;
/** What may wait to be written. */
const queueRecordsMax = 10_000;
const queueBytesMax = 64 * 1024 * 1024;
/** What a record takes in the batch besides its value and signature, at most. */
const recordOverheadBytes = 100;

interface Waiting {
  readonly message: NewMessage;
  readonly bytes: number;
  readonly untilMs: number;
  readonly resolve: (offset: number) => void;
  readonly reject: (error: unknown) => void;
}

interface Producing {
  /** The partition's doubts when it was last compared. */
  readonly doubts: number;
  readonly connection: KafkaConnection;
  readonly replicas: number;
}

export class KafkaAppender {
  readonly #partition: KafkaPartition;
  readonly #signal: AbortSignal;
  readonly #deadlineMs: number;
  readonly #queue: Waiting[] = [];
  #queueBytes = 0;
  #writing = false;
  #producing: Producing | undefined;

  /** `deadlineMs`: how long an append that was not sent is tried. The signal ends everything at once. */
  constructor(partition: KafkaPartition, signal: AbortSignal, deadlineMs: number) {
    this.#partition = partition;
    this.#signal = signal;
    this.#deadlineMs = deadlineMs;
    signal.addEventListener('abort', () => this.#end(), { once: true });
  }

  append(value: Uint8Array, signature: Uint8Array | null): Promise<number> {
    if (this.#signal.aborted) return Promise.reject(closedError(this.#partition.name));
    const bytes = value.length + (signature?.length ?? 0) + recordOverheadBytes;
    if (this.#queue.length >= queueRecordsMax || this.#queueBytes + bytes > queueBytesMax)
      return Promise.reject(new LogUnavailable(`too many appends wait for ${this.#partition.name}`));
    return new Promise((resolve, reject) => {
      const headers = signature ? { [signatureHeader]: Buffer.from(signature) } : {};
      const message = { value: Buffer.from(value), headers };
      const untilMs = performance.now() + this.#deadlineMs;
      this.#queue.push({ message, bytes, untilMs, resolve, reject });
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

  #takeGroup(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const waiting of this.#queue.slice(0, groupRecordsMax)) {
      bytes += waiting.bytes;
      if (count > 0 && bytes > groupBytesMax) break;
      count++;
    }
    const group = this.#queue.splice(0, count);
    for (const { bytes } of group) this.#queueBytes -= bytes;
    return group;
  }

  /** Resolves with the first offset. Rejects with AppendUnknown, LogUnavailable or LogReplaced. */
  async #write(group: readonly Waiting[]): Promise<number> {
    const untilMs = group[0]?.untilMs ?? 0;
    for (let attempt = 0; ; attempt++) {
      const { connection, replicas } = await this.#connection(untilMs);
      try {
        const messages = group.map(({ message }) => message);
        const offset = await connection.produce(this.#partition.place, messages);
        this.#partition.sawAppended(offset, offset + group.length);
        return offset;
      } catch (error) {
        this.#giveUp();
        if (!(error instanceof KafkaFault)) throw error;
        this.#judge(error, replicas, untilMs);
      }
      await backOff(attempt, this.#signal);
    }
  }

  /** Returns where the append may be tried again. */
  #judge(fault: KafkaFault, replicas: number, untilMs: number): void {
    const { name } = this.#partition;
    const outcome = outcomeOf(fault, replicas);
    if (outcome === 'unknown')
      throw new AppendUnknown(`the append to ${name} may be in the log or not: ${fault.message}`, {
        cause: fault,
      });
    if (outcome === 'refused' || performance.now() > untilMs) throw unavailable(name, fault);
  }

  /** A connection to the leader of what was checked to be the same log. Rejects with LogUnavailable or LogReplaced. */
  async #connection(untilMs: number): Promise<Producing> {
    const { cluster, place, doubts } = this.#partition;
    if (this.#producing?.connection.isOpen && this.#producing.doubts === doubts) return this.#producing;
    this.#producing?.connection.destroy();
    const deadlineMs = Math.max(untilMs - performance.now(), 0);
    const dial = async () => {
      const { doubts } = this.#partition;
      const leader = await cluster.leader(place);
      const connection = await cluster.dial(leader);
      try {
        await this.#partition.check();
      } catch (error) {
        connection.destroy();
        throw error;
      }
      return { connection, replicas: leader.replicas, doubts };
    };
    const producing = await this.#partition.patiently(dial, { deadlineMs, signal: this.#signal });
    this.#producing = producing;
    if (!this.#signal.aborted) return producing;
    this.#giveUp();
    throw closedError(this.#partition.name);
  }

  #giveUp(): void {
    this.#partition.suspect();
    this.#producing?.connection.destroy();
    this.#producing = undefined;
  }

  #end(): void {
    for (const { reject } of this.#queue.splice(0)) reject(closedError(this.#partition.name));
    this.#queueBytes = 0;
    this.#producing?.connection.destroy();
    this.#producing = undefined;
  }
}
