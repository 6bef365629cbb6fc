/**
 * The snapshot in use and what belongs to it: the file, the connection that requests read, the replicator that keeps it at
 * the head of the log, and the background verification of its rows. The supervisor replaces all of it after a rebuild.
 */
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { verifyContinuously } from '../../shared/snapshot/background-verify.ts';
import { cachedLookup } from '../../shared/snapshot/cached-lookup.ts';
import type { Freshness } from '../../shared/snapshot/freshness.ts';
import { createLookup, type Lookup } from '../../shared/snapshot/lookup.ts';
import { Replicator, type ReplicatorOptions } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { SnapshotReader } from './reader.ts';

export interface ActiveSnapshotOptions
  extends Pick<
    ReplicatorOptions,
    'mayProve' | 'trusted' | 'probeIntervalMs' | 'onCommits' | 'onFault' | 'onReachabilityChange'
  > {
  /** Of this gateway: which changes have reached it depends on it. */
  readonly name: string;
  /** The shortest pause between two passes of the background verification. */
  readonly verifyPauseMs?: number;
  /** The rows are not what was folded. */
  readonly onDamage: (reason: string) => void;
}

export class ActiveSnapshot {
  readonly snapshot: Snapshot;
  /** Always at the position of the snapshot. */
  readonly lookup: Lookup;
  readonly #reader: SnapshotReader;
  readonly #options: ActiveSnapshotOptions;
  readonly #closing = new AbortController();
  #replicator: Replicator;
  #verifying: Promise<void> | undefined;

  /** Owns the snapshot from here on. `freshness`: earlier proofs of this very state, which stay valid. */
  constructor(snapshot: Snapshot, log: ControlLog, options: ActiveSnapshotOptions, freshness?: Freshness) {
    this.snapshot = snapshot;
    this.#options = options;
    this.#reader = new SnapshotReader(snapshot, options.name);
    const cached = cachedLookup({
      ...createLookup(this.#reader.db),
      position: () => snapshot.seq,
      overlaid: () => this.#reader.overlaid,
    });
    snapshot.watchRows(cached.forget);
    this.lookup = cached;
    this.#replicator = this.#replicate(log, freshness);
  }

  get replicator(): Replicator {
    return this.#replicator;
  }

  /** Continues to follow the log after a fault has passed; `log` may have been reopened. */
  async resume(log: ControlLog): Promise<void> {
    await this.#replicator.stop();
    this.#replicator = this.#replicate(log, this.#replicator.freshness);
  }

  /** Starts the background verification. */
  startVerification(): void {
    const { onDamage, verifyPauseMs } = this.#options;
    this.#verifying = verifyContinuously(this.snapshot, this.#closing.signal, verifyPauseMs).then(
      (tables) => {
        if (tables.length > 0) onDamage(`rows of ${tables.join(', ')} do not add up to their digest`);
      },
      (error: unknown) =>
        onDamage(`it cannot be read: ${error instanceof Error ? error.message : String(error)}`),
    );
  }

  /** Stops replication and verification; look-ups answer until `close`. */
  async stop(): Promise<void> {
    this.#closing.abort();
    await this.#replicator.stop();
    await this.#verifying;
  }

  close(): void {
    this.#reader.close();
    this.snapshot.close();
  }

  #replicate(log: ControlLog, freshness: Freshness | undefined): Replicator {
    const { onCommits, onDamage: _, verifyPauseMs: __, ...options } = this.#options;
    const replicator = new Replicator({
      ...options,
      ...(freshness && { freshness }),
      snapshot: this.snapshot,
      log,
      onCommits: (commits, seconds, isBatchFolded) => {
        this.#reader.refresh();
        onCommits?.(commits, seconds, isBatchFolded);
      },
    });
    replicator.start();
    return replicator;
  }
}

/** A look-up over the snapshot in use, whichever that is: its holders need not know that the snapshot was replaced. */
export function liveLookup(current: () => Lookup): Lookup {
  return {
    organisationOwner: (id) => current().organisationOwner(id),
    keyOwnerById: (id) => current().keyOwnerById(id),
    keyOwner: (hash) => current().keyOwner(hash),
    anonymousTier: () => current().anonymousTier(),
    stacksOf: (organisation) => current().stacksOf(organisation),
    visitorTotals: () => current().visitorTotals(),
    stack: (id) => current().stack(id),
    routes: (place, model) => current().routes(place, model),
    loadedLast: (place, model) => current().loadedLast(place, model),
    isPooled: (model) => current().isPooled(model),
    tierIncludes: (tier, model) => current().tierIncludes(tier, model),
    isCatalogued: (model) => current().isCatalogued(model),
    hasAffinity: (model) => current().hasAffinity(model),
    weight: (model) => current().weight(model),
    nextTier: (rank, monthlyTokens, model) => current().nextTier(rank, monthlyTokens, model),
    listing: (place) => current().listing(place),
    usageAdjustment: (organisation, period) => current().usageAdjustment(organisation, period),
    position: () => current().position(),
    overlaid: () => current().overlaid(),
  };
}
