/**
 * Finds nodes for which no agent reports. Claims nodes whose owner is dead, and checks this replica's own nodes after five
 * seconds without an agent. It scans twice a second, and soon after a change of the state.
 */
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import type { NodeRow } from './node-health.ts';
import type { NodeReporter } from './node-reporter.ts';
import type { ReplicaLiveness } from './replica-liveness.ts';

export interface OrphanedNodesOptions {
  readonly reporter: NodeReporter;
  readonly liveness: ReplicaLiveness;
  readonly canReport: () => boolean;
  readonly logger: Logger;
  isAttached(id: string): boolean;
  /** Probes the node, and reports it down unless it answers. */
  verify(id: string, reason: string): void;
  /** Called after each scan with the ids of all nodes that have agents. */
  onScan(known: ReadonlySet<string>): void;
  onLogUnreachable(): void;
}

const scanIntervalMs = 500;
const orphanedMsMax = 5000;
/** Delay of a scan in ms above which this process counts as having been suspended or starved. */
const starvedMs = 1500;

export class OrphanedNodes {
  readonly #options: OrphanedNodesOptions;
  readonly #stop = new AbortController();
  /** Monotonic time in ms since which each of this replica's nodes has had no agent. */
  readonly #orphanedSinceMs = new Map<string, number>();
  #scannedMs = performance.now();
  #resumedMs = Number.NEGATIVE_INFINITY;
  #scheduled: NodeJS.Immediate | undefined;
  #scanning: Promise<void> | undefined;

  constructor(options: OrphanedNodesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#scannedMs = performance.now();
    this.#scanning = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    clearImmediate(this.#scheduled);
    await this.#scanning;
  }

  /** Whether this process has run without a pause recently. If it was starved, missed heartbeats prove nothing. */
  get hasRunContinuously(): boolean {
    const nowMs = performance.now();
    return nowMs - this.#scannedMs < starvedMs && nowMs - this.#resumedMs > orphanedMsMax;
  }

  /** Number of this replica's healthy nodes without an agent. */
  get count(): number {
    return this.#orphanedSinceMs.size;
  }

  agentDetached(id: string): void {
    this.#orphanedSinceMs.set(id, performance.now());
  }

  /** Schedules a scan. Many commits within one turn of the event loop cause only one scan. */
  scheduleScan(): void {
    this.#scheduled ??= setImmediate(() => {
      this.#scheduled = undefined;
      if (!this.#stop.signal.aborted) this.#scan();
    });
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const nowMs = performance.now();
      if (nowMs - this.#scannedMs > starvedMs) {
        this.#resumedMs = nowMs;
        this.#orphanedSinceMs.clear();
      }
      this.#scannedMs = nowMs;
      this.#scan();
      await sleep(scanIntervalMs, this.#stop.signal);
    }
  }

  #scan(): void {
    const { reporter, liveness, canReport, onScan, onLogUnreachable } = this.#options;
    if (!canReport()) {
      this.#orphanedSinceMs.clear();
      onLogUnreachable();
      return;
    }
    const nodes = reporter.nodes('agent');
    const known = new Set(nodes.map(({ id }) => id));
    const isDead = liveness.check();
    for (const node of nodes) this.#reconcile(node, isDead);
    for (const id of this.#orphanedSinceMs.keys()) if (!known.has(id)) this.#orphanedSinceMs.delete(id);
    onScan(known);
  }

  #reconcile(node: NodeRow, isDead: (owner: string | null) => boolean): void {
    const { reporter, isAttached, verify, logger } = this.#options;
    const { id } = node;
    if (isAttached(id) || node.up !== 1) {
      this.#orphanedSinceMs.delete(id);
    } else if (node.owner === reporter.owner) {
      const sinceMs = this.#orphanedSinceMs.get(id) ?? performance.now();
      this.#orphanedSinceMs.set(id, sinceMs);
      if (performance.now() - sinceMs > orphanedMsMax) verify(id, 'no agent attached');
    } else {
      this.#orphanedSinceMs.delete(id);
      if (!isDead(node.owner)) return;
      reporter
        .claim(id)
        .catch((error: unknown) => logger.debug({ node: id, err: error }, 'node not claimed'));
    }
  }
}
