/**
 * Snapshot in use, together with everything that works on it: the connection that requests read from, the replicator that
 * follows the log, and the background check of the rows. When a snapshot has been rebuilt, the supervisor replaces the whole
 * object.
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
  /** Name of this gateway. It determines which staged changes apply to this gateway. */
  readonly name: string;
  /** Minimum pause in ms between two background checks of all rows of the snapshot. */
  readonly verifyPauseMs?: number;
  /** Called if the snapshot's rows are no longer those that were folded. */
  readonly onDamage: (reason: string) => void;
}

export class ActiveSnapshot {
  readonly snapshot: Snapshot;
  /** Reads from the snapshot at its latest position. */
  readonly lookup: Lookup;
  readonly #reader: SnapshotReader;
  readonly #options: ActiveSnapshotOptions;
  readonly #closing = new AbortController();
  #replicator: Replicator;
  #verifying: Promise<void> | undefined;

  /** Starts to use a snapshot. `freshness` may contain proofs for the same state, which then stay valid. */
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

  /** Follows the log again once a fault is over. `log` may be a new connection. */
  async resume(log: ControlLog): Promise<void> {
    await this.#replicator.stop();
    this.#replicator = this.#replicate(log, this.#replicator.freshness);
  }

  startVerification(): void {
    const { onDamage, verifyPauseMs } = this.#options;
    this.#verifying = verifyContinuously(this.snapshot, this.#closing.signal, verifyPauseMs).then(
      (tables) => {
        if (tables.length > 0) onDamage(`rows of ${tables.join(', ')} do not match their digest`);
      },
      (error: unknown) =>
        onDamage(`it cannot be read: ${error instanceof Error ? error.message : String(error)}`),
    );
  }

  /** Stops following the log and checking the rows. Look-ups work until `close` is called. */
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

/** Look-up that always reads from the snapshot in use, so that its users need not know when the snapshot is replaced. */
export function liveLookup(current: () => Lookup): Lookup {
  return {
    organisationOwner: (id) => current().organisationOwner(id),
    keyOwnerById: (id) => current().keyOwnerById(id),
    keyOwner: (hash) => current().keyOwner(hash),
    anonymousTier: () => current().anonymousTier(),
    listStacks: (organisation) => current().listStacks(organisation),
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
