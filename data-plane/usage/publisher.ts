/**
 * Ships the outbox to the usage log: the oldest rows first, those of an incarnation in order and always to the same
 * partition, one record at a time. It never gives up: an append that failed, or whose outcome is not known, is repeated
 * with back-off, because a repeated row is recognised by its number and a lost one is money.
 */
import { usagePartitionOf } from '../../schemas/usage.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { delay } from '../../shared/snapshot/replicator.ts';
import type { Outbox, Shipment } from './outbox.ts';

/** Rows that come within this of the first one share its record: one append and one fold for many. */
const lingerMs = 50;
const retryMsMin = 50;
const retryMsMax = 5_000;

export interface PublisherOptions {
  readonly outbox: Outbox;
  readonly partitions: number;
  /** Opens one partition of the usage log. */
  readonly open: (partition: number) => Promise<ControlLog>;
  /** Called when the log takes no rows, and again when it does. */
  readonly onReach?: (reachable: boolean, error?: Error) => void;
}

export class Publisher {
  readonly #options: PublisherOptions;
  readonly #stop = new AbortController();
  readonly #logs = new Map<number, ControlLog>();
  #wake: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #reachable = true;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  get reachable(): boolean {
    return this.#reachable;
  }

  /** Starts shipping; returns at once. */
  start(): void {
    this.#options.outbox.whenDurable(() => this.#wake());
    this.#running = this.#run();
  }

  /** Ships what is left for up to `timeoutMs`, then ends; rows left over wait in the outbox. */
  async stop(timeoutMs: number): Promise<void> {
    const { outbox } = this.#options;
    outbox.flush();
    const until = performance.now() + timeoutMs;
    // Once stopped, nothing is shipped any more, and no delay waits.
    while (!this.#stop.signal.aborted && outbox.unshipped > 0 && performance.now() < until)
      await delay(10, this.#stop.signal);
    this.#stop.abort();
    this.#wake();
    // An append that does not return in time is left behind: closing the logs ends it.
    const left = new AbortController();
    await Promise.race([this.#running, delay(Math.max(until - performance.now(), 100), left.signal)]);
    left.abort();
    await Promise.allSettled([...this.#logs.values()].map((log) => log.close()));
  }

  async #run(): Promise<void> {
    let waitMs = retryMsMin;
    while (!this.#stop.signal.aborted) {
      try {
        const shipment = this.#options.outbox.nextShipment();
        if (!shipment) {
          await this.#idle();
          await delay(lingerMs, this.#stop.signal);
        } else {
          await this.#ship(shipment);
          waitMs = retryMsMin;
          this.#reach(true);
        }
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#reach(false, error instanceof Error ? error : new Error(String(error)));
        await delay(waitMs * (0.5 + Math.random() / 2), this.#stop.signal);
        waitMs = Math.min(waitMs * 2, retryMsMax);
      }
    }
  }

  async #ship(shipment: Shipment): Promise<void> {
    const { outbox, partitions, open } = this.#options;
    const partition = usagePartitionOf(shipment.incarnation.id, partitions);
    try {
      const log = this.#logs.get(partition) ?? (await open(partition));
      this.#logs.set(partition, log);
      await log.append(Buffer.from(`[${shipment.bodies.join(',')}]`));
    } catch (error) {
      // A log that failed is opened anew: it may have been replaced.
      await this.#logs.get(partition)?.close();
      this.#logs.delete(partition);
      throw error;
    }
    outbox.shipped(shipment);
  }

  /** Waits for rows; `nextShipment` was asked in this same turn. */
  #idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #reach(reachable: boolean, error?: Error): void {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    this.#options.onReach?.(reachable, error);
  }
}
