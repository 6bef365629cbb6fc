/**
 * Keeps a usage store up to date with the usage log. One loop per partition folds records in short slices. Failures are
 * retried indefinitely. A truncated or replaced log is read again from its beginning, because the store recognises repeated
 * rows. Only a damaged store stops the replicator.
 */
import { Follower } from '../../shared/log/core/follower.ts';
import { ReopenedLog } from '../../shared/log/reopened-log.ts';
import { DatabaseCorrupt } from '../../shared/runtime/sqlite.ts';
import type { UsageLogAddress } from '../../shared/usage/usage-log.ts';
import type { AppliedUsage, UsageStore } from './usage-store.ts';

/** Longest time in ms for which one slice may block the event loop. */
const sliceBudgetMs = 6;

export interface UsageReplicatorOptions extends UsageLogAddress {
  readonly store: UsageStore;
  /** Called synchronously after the store has applied rows. */
  readonly onApplied?: (applied: AppliedUsage) => void;
  /** Called when a partition can no longer be folded, and when all partitions can be folded again. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
  /** Called once, when the replicator stops for good. */
  readonly onFault?: (error: Error) => void;
}

export class UsageReplicator {
  readonly #options: UsageReplicatorOptions;
  readonly #logs: readonly ReopenedLog[];
  /** Followers of the partitions, in partition order. */
  readonly #followers: readonly Follower[];
  #reachable = true;
  #fault: Error | undefined;

  constructor(options: UsageReplicatorOptions) {
    this.#options = options;
    this.#logs = Array.from(
      { length: options.partitions },
      (_, partition) => new ReopenedLog((mustExist) => options.open(partition, mustExist)),
    );
    this.#followers = this.#logs.map((log, partition) => this.#follower(log, partition));
  }

  /** Error that stopped the replicator for good. */
  get fault(): Error | undefined {
    return this.#fault;
  }
  get reachable(): boolean {
    return this.#reachable;
  }

  start(): void {
    for (const follower of this.#followers) follower.start();
  }

  /** Resolves with true once the log is folded, or with false after `timeoutMs`. Rejects on a fault or once stopped. */
  async caughtUp(timeoutMs: number): Promise<boolean> {
    const read = await Promise.all(this.#followers.map((follower) => follower.caughtUp(timeoutMs)));
    return read.every((isRead) => isRead);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#followers.map((follower) => follower.stop()));
    await Promise.all(this.#logs.map((log) => log.close().catch(() => undefined)));
  }

  #follower(log: ReopenedLog, partition: number): Follower {
    const { store, onApplied } = this.#options;
    const follower: Follower = new Follower({
      log,
      begin: async () => {
        const end = await log.end();
        store.begin(partition);
        // An idle log yields no batches, so only reaching its end proves that the log is reachable.
        if (end <= store.nextOffset(partition)) follower.setReachable();
        return store.nextOffset(partition);
      },
      fold: (records) => {
        const applied = store.apply(partition, records, sliceBudgetMs);
        onApplied?.(applied);
        return applied.consumed;
      },
      onRestart: () => this.#restart(partition),
      isFatal: (error) => error instanceof DatabaseCorrupt,
      onFault: (error) => this.#fail(error),
      onReachabilityChange: (_, error) => this.#noteReachability(error),
    });
    return follower;
  }

  #restart(partition: number): void {
    try {
      this.#options.store.restart(partition);
    } catch (error) {
      if (error instanceof DatabaseCorrupt) this.#fail(error);
      // Ignore any other error, because it will occur again, and be reported, when records are folded.
    }
  }

  #noteReachability(error: Error | undefined): void {
    const isReachable = this.#followers.every(({ failing }) => failing === undefined);
    if (isReachable === this.#reachable) return;
    this.#reachable = isReachable;
    this.#options.onReachabilityChange?.(isReachable, error);
  }

  #fail(error: Error): void {
    if (this.#fault) return;
    this.#fault = error;
    for (const follower of this.#followers) follower.fail(error);
    this.#options.onFault?.(error);
  }
}
