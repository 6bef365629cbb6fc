/**
 * Keeps a usage store at the end of the usage log, one loop a partition: tails, and folds in slices that never hold the
 * event loop for long. Every failure is retried with back-off and without end: the store recognises
 * repeats, so a log that was truncated or replaced is read from its beginning again. Only a damaged store stops it for good.
 */
import { setMaxListeners } from 'node:events';
import {
  type ControlLog,
  type LogBatch,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from '../log/core/control-log.ts';
import { Backoff } from '../runtime/retry.ts';
import { DatabaseCorrupt } from '../runtime/sqlite.ts';
import { Waiters } from '../runtime/waiters.ts';
import type { AppliedUsage, UsageStore } from './usage-store.ts';

/** The longest the fold may hold the event loop in one go. */
const sliceBudgetMs = 6;
const retryMsMin = 50;
const retryMsMax = 2000;

export interface UsageReplicatorOptions {
  readonly store: UsageStore;
  readonly partitions: number;
  /** Opens one partition. A log whose first records were removed must begin at the first one kept. */
  readonly open: (partition: number) => Promise<ControlLog>;
  /** Called in the turn of the event loop in which the store applied the rows. */
  readonly onApplied?: (applied: AppliedUsage) => void;
  /** Called when a partition cannot be folded, and again when all can. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
  /** Called once, when it stops for good. */
  readonly onFault?: (error: Error) => void;
}

export class UsageReplicator {
  readonly #options: UsageReplicatorOptions;
  readonly #stop = new AbortController();
  readonly #logs = new Map<number, ControlLog>();
  readonly #failing = new Set<number>();
  readonly #waiters = new Waiters();
  #running: Promise<void>[] = [];
  #fault: Error | undefined;

  constructor(options: UsageReplicatorOptions) {
    this.#options = options;
    // Each partition waits on it, and Node warns of a leak beyond ten.
    setMaxListeners(0, this.#stop.signal);
  }

  /** Why it stopped for good. */
  get fault(): Error | undefined {
    return this.#fault;
  }
  get reachable(): boolean {
    return this.#failing.size === 0;
  }

  /** Starts tailing; returns at once. */
  start(): void {
    for (let partition = 0; partition < this.#options.partitions; partition++)
      this.#running.push(this.#run(partition));
  }

  /** Resolves true once all that the log holds now is folded, false at the deadline. Rejects on a fault and once stopped. */
  async caughtUp(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    for (let partition = 0; partition < this.#options.partitions; partition++) {
      let end: number | undefined;
      while (end === undefined || this.#options.store.nextOffset(partition) < end) {
        this.#checkRunning();
        if (performance.now() > until) return false;
        end ??= await this.#end(partition);
        if (end === undefined || this.#options.store.nextOffset(partition) < end)
          await this.#waiters.next(Math.min(50, until - performance.now()));
      }
    }
    return true;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#waiters.wake();
    await Promise.allSettled(this.#running);
    for (const partition of [...this.#logs.keys()]) await this.#close(partition);
  }

  #checkRunning(): void {
    if (this.#fault) throw this.#fault;
    if (this.#stop.signal.aborted) throw new LogUnavailable('the usage log is no longer followed here');
  }

  async #end(partition: number): Promise<number | undefined> {
    try {
      return await this.#logs.get(partition)?.end();
    } catch {
      return undefined; // The partition's own loop gets the same error and reports it.
    }
  }

  async #run(partition: number): Promise<void> {
    const backoff = new Backoff({ minMs: retryMsMin, maxMs: retryMsMax });
    while (!this.#stop.signal.aborted) {
      try {
        await this.#follow(partition, () => backoff.reset());
        return;
      } catch (error) {
        await this.#close(partition);
        if (this.#stop.signal.aborted) return;
        if (error instanceof DatabaseCorrupt) return this.#fail(error);
        this.#setReachable(partition, asError(error));
        this.#restartIfTruncated(partition, error);
        await backoff.pause(this.#stop.signal);
      }
    }
  }

  /** Tails until stopped; throws when the log ends it for another reason. */
  async #follow(partition: number, onBatch: () => void): Promise<void> {
    const { store, open } = this.#options;
    const log = await open(partition);
    this.#logs.set(partition, log);
    const { signal } = this.#stop;
    const end = await log.end();
    store.begin(partition, end);
    if (end <= store.nextOffset(partition)) this.#setReachable(partition);
    for await (const batch of log.tail({ from: store.nextOffset(partition), signal })) {
      await this.#fold(partition, batch);
      onBatch();
    }
    if (!signal.aborted) throw new LogUnavailable('the usage log ended its tail');
  }

  async #fold(partition: number, batch: LogBatch): Promise<void> {
    const { store, onApplied } = this.#options;
    let rest = batch.records;
    while (rest.length > 0 && !this.#stop.signal.aborted) {
      const applied = store.apply(partition, rest, sliceBudgetMs);
      rest = rest.slice(applied.consumed);
      onApplied?.(applied);
      this.#setReachable(partition);
      this.#waiters.wake();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #restartIfTruncated(partition: number, error: unknown): void {
    if (!(error instanceof LogTruncated || error instanceof LogReplaced)) return;
    try {
      this.#options.store.restart(partition);
    } catch (cause) {
      if (cause instanceof DatabaseCorrupt) this.#fail(cause);
      // Any other error of the file occurs again, and is reported, when the records are folded.
    }
  }

  async #close(partition: number): Promise<void> {
    const log = this.#logs.get(partition);
    this.#logs.delete(partition);
    await log?.close().catch(() => undefined);
  }

  #setReachable(partition: number, error?: Error): void {
    const before = this.reachable;
    if (error) this.#failing.add(partition);
    else this.#failing.delete(partition);
    if (before !== this.reachable) this.#options.onReachabilityChange?.(this.reachable, error);
  }

  #fail(error: Error): void {
    if (this.#fault) return;
    this.#fault = error;
    this.#stop.abort();
    this.#waiters.wake();
    this.#options.onFault?.(error);
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
