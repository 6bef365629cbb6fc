/**
 * Ships rows from the outbox to the usage log, oldest first and one record at a time. All rows of an incarnation go to the
 * same partition, in order. An append that failed, or may have failed, is repeated until it succeeds. A lost row would be
 * unbilled usage, while a repeated row is recognised by its number.
 */
import { usagePartition } from '../../schemas/records/usage.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { RecordMac } from '../../shared/log/core/record-mac.ts';
import { Backoff, sleep, within } from '../../shared/runtime/retry.ts';
import type { Outbox } from './outbox.ts';
import type { Shipment } from './shipper.ts';

/** Minimum time in ms between two records on the usage log, even if there are rows to ship. */
const recordEveryMs = 100;
const retryMsMin = 50;
const retryMsMax = 5_000;

export interface UsagePublisherOptions {
  readonly outbox: Outbox;
  readonly partitions: number;
  /** Authenticates records with the current gateway token, even if an earlier process recorded their rows. */
  readonly mac: RecordMac;
  /** Opens a partition of the usage log. `mustExist` is true if this process has opened the partition before. */
  readonly open: (partition: number, mustExist: boolean) => Promise<ControlLog>;
  /** Called when appends begin to fail, and when they succeed again. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class Publisher {
  readonly #options: UsagePublisherOptions;
  readonly #stop = new AbortController();
  readonly #logs = new Map<number, ControlLog>();
  /** Partitions that this process has opened before. */
  readonly #opened = new Set<number>();
  #wake: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #reachable = true;

  constructor(options: UsagePublisherOptions) {
    this.#options = options;
  }

  get reachable(): boolean {
    return this.#reachable;
  }

  /** Starts to ship rows in the background. */
  start(): void {
    this.#options.outbox.setOnDurable(() => this.#wake());
    this.#running = this.#run();
  }

  /** Ships the remaining rows for at most `timeoutMs`, then stops. Rows that are left stay in the outbox. */
  async stop(timeoutMs: number): Promise<void> {
    const { outbox } = this.#options;
    outbox.flush();
    const until = performance.now() + timeoutMs;
    // Nothing is shipped after an earlier stop, and `sleep` then returns at once, so this loop would never pause.
    while (!this.#stop.signal.aborted && outbox.unshipped > 0 && performance.now() < until)
      await sleep(10, this.#stop.signal);
    this.#stop.abort();
    this.#wake();
    // Give up an append that takes too long. It ends when the logs are closed.
    await within(Promise.resolve(this.#running), Math.max(until - performance.now(), 100));
    await Promise.allSettled([...this.#logs.values()].map((log) => log.close()));
  }

  async #run(): Promise<void> {
    const backoff = new Backoff({ minMs: retryMsMin, maxMs: retryMsMax });
    let shippedMs = Number.NEGATIVE_INFINITY;
    const { outbox, partitions } = this.#options;
    // Open the partition even before there are rows. If it is moved away later, it must not be created again (`mustExist`).
    await this.#open(usagePartition(outbox.incarnation, partitions)).catch(() => undefined);
    while (!this.#stop.signal.aborted) {
      try {
        const shipment = outbox.nextShipment();
        if (!shipment) {
          await this.#idle();
          await sleep(Math.max(shippedMs + recordEveryMs - performance.now(), 0), this.#stop.signal);
        } else {
          await this.#ship(shipment);
          shippedMs = performance.now();
          backoff.reset();
          this.#setReachable(true);
        }
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#setReachable(false, error instanceof Error ? error : new Error(String(error)));
        await backoff.pause(this.#stop.signal);
      }
    }
  }

  async #open(partition: number): Promise<ControlLog> {
    const { open } = this.#options;
    const log = this.#logs.get(partition) ?? (await open(partition, this.#opened.has(partition)));
    this.#logs.set(partition, log);
    this.#opened.add(partition);
    return log;
  }

  async #ship(shipment: Shipment): Promise<void> {
    const { outbox, partitions, mac } = this.#options;
    const partition = usagePartition(shipment.incarnation, partitions);
    try {
      const log = await this.#open(partition);
      const record = Buffer.from(`[${shipment.bodies.join(',')}]`);
      await log.append(record, mac.of(record));
    } catch (error) {
      // Close the log, so that the next attempt opens it again, because it may have been replaced.
      await this.#logs.get(partition)?.close();
      this.#logs.delete(partition);
      throw error;
    }
    outbox.markShipped(shipment);
  }

  /** Waits until there are rows to ship. Must be called in the turn of the event loop in which there are none. */
  #idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #setReachable(reachable: boolean, error?: Error): void {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    this.#options.onReachabilityChange?.(reachable, error);
  }
}
