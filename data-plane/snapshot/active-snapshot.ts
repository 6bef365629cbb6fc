/**
 * One snapshot in use: the file, the connection that requests read, the replicator that keeps it at the head of the log,
 * and the watch over its rows. A gateway has one generation at a time and replaces it where the snapshot is built anew.
 */
import type { Commit } from '../../schemas/commit.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import { verifyContinuously } from '../../shared/snapshot/background-verify.ts';
import type { Freshness } from '../../shared/snapshot/freshness.ts';
import { createLookup, type Lookup } from '../../shared/snapshot/lookup.ts';
import { SnapshotReader } from '../../shared/snapshot/reader.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

export interface GenerationHooks {
  readonly mayProve: () => boolean;
  readonly trusted: TrustedSigners | undefined;
  /** After each folded slice: its commits, and how long it took. */
  readonly onMoved: (commits: readonly Commit[], seconds: number) => void;
  /** The replicator stopped for good. */
  readonly onFault: (error: Error) => void;
  readonly onReach: (reachable: boolean, error?: Error) => void;
  /** The rows are not what was folded. */
  readonly onDamage: (reason: string) => void;
}

export class Generation {
  readonly snapshot: Snapshot;
  /** At the position of the snapshot, always. */
  readonly lookup: Lookup;
  readonly #reader: SnapshotReader;
  readonly #hooks: GenerationHooks;
  readonly #closing = new AbortController();
  #replicator: Replicator;
  #watching: Promise<void> | undefined;

  /** Takes the snapshot over. With `freshness`, what was proved of this very state before goes on counting. */
  constructor(snapshot: Snapshot, log: ControlLog, hooks: GenerationHooks, freshness?: Freshness) {
    this.snapshot = snapshot;
    this.#hooks = hooks;
    this.#reader = new SnapshotReader(snapshot.path);
    this.lookup = { ...createLookup(this.#reader.db), position: () => snapshot.seq };
    this.#replicator = this.#follow(log, freshness);
  }

  get replicator(): Replicator {
    return this.#replicator;
  }

  /** Follows the log on from where the snapshot stands, after a fault that has passed; `log` may have been opened anew. */
  async resume(log: ControlLog): Promise<void> {
    await this.#replicator.stop();
    this.#replicator = this.#follow(log, this.#replicator.freshness);
  }

  /** Begins to watch the rows. */
  watch(): void {
    const { onDamage } = this.#hooks;
    this.#watching = verifyContinuously(this.snapshot, this.#closing.signal).then(
      (tables) => {
        if (tables.length > 0) onDamage(`rows of ${tables.join(', ')} do not add up to their digest`);
      },
      (error: unknown) =>
        onDamage(`its rows cannot be read: ${error instanceof Error ? error.message : String(error)}`),
    );
  }

  /** Ends folding and watching; what was folded can be read until `close`. */
  async stop(): Promise<void> {
    this.#closing.abort();
    await this.#replicator.stop();
    await this.#watching;
  }

  close(): void {
    this.#reader.close();
    this.snapshot.close();
  }

  #follow(log: ControlLog, freshness: Freshness | undefined): Replicator {
    const { mayProve, trusted, onMoved, onFault, onReach } = this.#hooks;
    const replicator = new Replicator({
      snapshot: this.snapshot,
      log,
      mayProve,
      trusted,
      onFault,
      onReach,
      onCommits: (commits, seconds) => {
        this.#reader.refresh();
        onMoved(commits, seconds);
      },
      ...(freshness && { freshness }),
    });
    replicator.start();
    return replicator;
  }
}
