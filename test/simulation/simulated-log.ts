/**
 * The log as each simulated machine sees it. It is kept in memory, answers take time, appends suffer faults, and a machine
 * can be cut off. Reading keeps every promise of `ControlLog`, because the product relies on these promises.
 */
import {
  AppendUnknown,
  type LogBatch,
  LogTruncated,
  LogUnavailable,
  type TailOptions,
  type TimedLog,
} from '../../shared/log/core/control-log.ts';
import { type AppendFault, MemoryTopic } from '../support/memory-log.ts';
import type { Machine, Scheduler, SimulatedProcess } from './scheduler.ts';

/** Shortest and longest time that a message to or from the log takes, in ms. */
const wayMs = [0.2, 4] as const;
const unansweredMs = [500, 3000] as const;

interface Reader {
  readonly topic: string;
  readonly owner: SimulatedProcess;
  readonly wake: () => void;
}

/** The server side of the log: its topics, and the faults that currently apply. */
export class Brokers {
  /** Machines that currently cannot reach the log. */
  readonly cutOff = new Set<Machine>();
  /** Machines that get no more records, although the log answers everything else. */
  readonly stalled = new Set<Machine>();
  /** Machines that the log answers slowly, with the longest additional time of one way, in ms. */
  readonly slow = new Map<Machine, number>();
  /** Chooses the fault of each append. */
  fault: () => AppendFault = () => 'none';
  onRecord: (topic: string, offset: number, value: Buffer) => void = () => undefined;
  readonly #scheduler: Scheduler;
  readonly #topics = new Map<string, MemoryTopic>();
  readonly #readers = new Set<Reader>();

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  topic(name: string): MemoryTopic {
    const found =
      this.#topics.get(name) ?? new MemoryTopic(() => this.#scheduler.wallMs(this.#scheduler.world.machine));
    this.#topics.set(name, found);
    return found;
  }

  open(topic: string): TimedLog {
    return new SimulatedLog(topic, this, this.#scheduler);
  }

  store(name: string, value: Uint8Array, signature: Uint8Array | null): number {
    const offset = this.topic(name).add(value, signature);
    this.onRecord(name, offset, Buffer.from(value));
    this.wakeReaders(name);
    return offset;
  }

  /** Waits until the topic changes, or until a machine is cut off or reaches the log again. */
  changed(topic: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#readers.delete(reader);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const reader = { topic, wake, owner: this.#scheduler.current };
      this.#readers.add(reader);
      signal?.addEventListener('abort', wake, { once: true });
    });
  }

  /** Wakes the processes that wait for the topic to change, or for any topic if none is given. */
  wakeReaders(topic?: string): void {
    for (const reader of this.#readers) {
      if (topic !== undefined && reader.topic !== topic) continue;
      this.#readers.delete(reader);
      this.#scheduler.after(this.wayMs(reader.owner.machine), reader.wake, reader.owner);
    }
  }

  /** Time of one way between a machine and the log, in ms. */
  wayMs(machine = this.#scheduler.current.machine): number {
    return this.#scheduler.between(...wayMs) + this.#scheduler.random() * (this.slow.get(machine) ?? 0);
  }

  isCutOff(): boolean {
    return this.cutOff.has(this.#scheduler.current.machine);
  }
}

class SimulatedLog implements TimedLog {
  readonly #name: string;
  readonly #brokers: Brokers;
  readonly #scheduler: Scheduler;
  readonly #owner: SimulatedProcess;
  #isClosed = false;
  readonly #closing = new AbortController();

  constructor(name: string, brokers: Brokers, scheduler: Scheduler) {
    this.#name = name;
    this.#brokers = brokers;
    this.#scheduler = scheduler;
    this.#owner = scheduler.current;
  }

  async append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    await this.#reach();
    const fault = this.#brokers.fault();
    const store = (): number => this.#brokers.store(this.#name, value, signature);
    if (fault === 'refused') throw new LogUnavailable('the log refused this append');
    if (fault === 'delayed') {
      // The append is stored even if the process that sent it has ended meanwhile.
      this.#scheduler.after(this.#scheduler.between(10, 5000), store, this.#scheduler.world);
    } else if (fault === 'duplicated') store();
    const offset = fault === 'lost' || fault === 'delayed' ? -1 : store();
    if (fault !== 'none' && fault !== 'duplicated') await this.#unanswered();
    // The acknowledgement does not arrive if the machine has been cut off in the meantime.
    await this.#way();
    if (this.#brokers.isCutOff()) await this.#unanswered();
    return offset;
  }

  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    const { signal, recordsMax = 500, bytesMax = 1024 * 1024 } = options;
    const ended = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
    let next = options.from;
    await this.#reach();
    while (!ended.aborted) {
      this.#check();
      if (this.#brokers.isCutOff()) await this.#unreachable();
      const topic = this.#brokers.topic(this.#name);
      if (next > topic.end) throw new LogTruncated(`the log ends at offset ${topic.end}, before ${next}`);
      const isStalled = this.#brokers.stalled.has(this.#owner.machine);
      const records = isStalled ? [] : topic.read(next, recordsMax, bytesMax);
      if (!isStalled) options.onRead?.();
      if (records.length === 0) await this.#brokers.changed(this.#name, ended);
      else {
        next += records.length;
        yield { records, nextOffset: next };
      }
    }
  }

  async end(): Promise<number> {
    await this.#reach();
    const { end } = this.#brokers.topic(this.#name);
    await this.#way();
    if (this.#brokers.isCutOff()) await this.#unreachable();
    return end;
  }

  async offsetAt(atMs: number): Promise<number> {
    await this.#reach();
    return this.#brokers.topic(this.#name).offsetAt(atMs);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closing.abort();
  }

  #check(): void {
    const { current } = this.#scheduler;
    if (current !== this.#owner)
      this.#scheduler.onUncaught(
        current,
        new Error(`a log of ${this.#owner.machine.name} was used by another process`),
      );
  }

  async #reach(): Promise<void> {
    this.#check();
    if (this.#isClosed) throw new LogUnavailable('the log is closed');
    await this.#way();
    if (this.#brokers.isCutOff()) await this.#unreachable();
  }

  #way(): Promise<void> {
    return this.#scheduler.sleep(this.#brokers.wayMs());
  }

  async #unreachable(): Promise<never> {
    await this.#scheduler.sleep(this.#scheduler.between(...unansweredMs));
    throw new LogUnavailable('the log cannot be reached');
  }

  async #unanswered(): Promise<never> {
    await this.#scheduler.sleep(this.#scheduler.between(...unansweredMs));
    throw new AppendUnknown('this append got no response');
  }
}
