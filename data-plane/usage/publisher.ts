/**
 * Publishes the outbox to the usage log: oldest rows first, the rows of an incarnation in order and on the same partition,
 * one record at a time. It repeats an append that failed, or whose result is unknown, until it succeeds, because the fold
 * recognises a repeated row by its number and a lost row is unbilled usage.
 */
import { usagePartition } from '../../schemas/records/usage.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { RecordMac } from '../../shared/log/core/record-mac.ts';
import { Backoff, sleep, within } from '../../shared/runtime/retry.ts';
import type { Outbox } from './outbox.ts';
import type { Shipment } from './shipper.ts';

/** Shortest time between two records in ms, while rows keep coming. */
const recordEveryMs = 100;
const retryMsMin = 50;
const retryMsMax = 5_000;

export interface UsagePublisherOptions {
  readonly outbox: Outbox;
  readonly partitions: number;
  /** Uses the present gateway token, even for rows of earlier processes. */
  readonly mac: RecordMac;
  /** Opens one partition of the usage log. `mustExist` is true if this process had the partition open before. */
  readonly open: (partition: number, mustExist: boolean) => Promise<ControlLog>;
  /** Called when appends begin to fail, and again when they succeed. */
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

  /** Starts publishing; returns at once. */
  start(): void {
    this.#options.outbox.setOnDurable(() => this.#wake());
    this.#running = this.#run();
  }

  /** Ships the remaining rows for up to `timeoutMs`, then ends; the rest stays in the outbox. */
  async stop(timeoutMs: number): Promise<void> {
    const { outbox } = this.#options;
    outbox.flush();
    const until = performance.now() + timeoutMs;
    // After an earlier stop nothing is shipped and `sleep` returns at once, so without the check this loop would spin.
    while (!this.#stop.signal.aborted && outbox.unshipped > 0 && performance.now() < until)
      await sleep(10, this.#stop.signal);
    this.#stop.abort();
    this.#wake();
    // An append that does not return in time is abandoned: closing the logs ends it.
    await within(Promise.resolve(this.#running), Math.max(until - performance.now(), 100));
    await Promise.allSettled([...this.#logs.values()].map((log) => log.close()));
  }

  async #run(): Promise<void> {
    const backoff = new Backoff({ minMs: retryMsMin, maxMs: retryMsMax });
    let shippedMs = Number.NEGATIVE_INFINITY;
    const { outbox, partitions } = this.#options;
    // Open the partition before the first row, so that a log that is moved away meanwhile is not created again.
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
      // Reopen a log that failed, because it may have been replaced.
      await this.#logs.get(partition)?.close();
      this.#logs.delete(partition);
      throw error;
    }
    outbox.markShipped(shipment);
  }

  /** Waits for rows; must be called in the turn in which `nextShipment` returned none. */
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
