/** Metrics that every process with a snapshot exposes: its build, its fold position and its freshness. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Commit } from '../../schemas/events/commit.ts';
import { isEventType } from '../../schemas/events/event-definitions.ts';
import { wallClockMs } from '../runtime/clock.ts';
import { Distribution, type Observations } from '../runtime/distribution.ts';
import { ObservedMetrics } from '../runtime/observed-metrics.ts';
import { version } from '../runtime/version.ts';
import { foldVersion } from './fold.ts';
import type { Replicator } from './replicator.ts';
import type { Snapshot } from './snapshot.ts';

/** The current snapshot and its replicator. A gateway may replace both while it runs. */
export interface FoldSource {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
}

const applyBounds = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1];
const propagationBounds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60];

export class FoldMetrics {
  readonly registry = new Registry();
  readonly #events = new Map<string, number>();
  readonly #apply: Observations;
  readonly #propagation: Observations;
  readonly #quarantined: Counter;

  constructor() {
    const { registry } = this;
    const registers = [registry];
    collectDefaultMetrics({ register: registry });
    const build = {
      name: 'headgate_build_info',
      help: 'always 1; the labels give the versions of Headgate and of Node.js',
    };
    new Gauge({ ...build, labelNames: ['version', 'node'], registers })
      .labels({ version: version(), node: process.versions.node })
      .set(1);
    // The digest is not a label, because each commit would start a new series. `headgate_fold_diverged` compares digests.
    const info = {
      name: 'headgate_snapshot_info',
      help: 'always 1; the label gives the version of the fold',
    };
    new Gauge({ ...info, labelNames: ['schema_version'], registers })
      .labels({ schema_version: String(foldVersion) })
      .set(1);
    const events = this.#events;
    new ObservedMetrics(registry).counters(
      'headgate_fold_events_total',
      'events folded since the start, by type',
      'type',
      () => events,
    );
    this.#quarantined = new Counter({
      name: 'headgate_fold_quarantined_total',
      help: 'snapshots quarantined because their rows differed from their digests',
      registers,
    });
    const [apply, propagation] = ['headgate_fold_apply_seconds', 'headgate_revocation_propagation_seconds'];
    this.#apply = new Distribution({
      ...{ name: apply, help: 'time to fold and write one slice of commits', bounds: applyBounds, registry },
    }).series({});
    this.#propagation = new Distribution({
      name: propagation,
      help: 'time from the revocation of a key to its fold here, by the clocks of both machines',
      ...{ bounds: propagationBounds, registry },
    }).series({});
  }

  /** Records a folded slice. `isLive` means that the fold was at the log's end, so a commit's age is its propagation time. */
  folded(commits: readonly Commit[], seconds: number, isLive: boolean): void {
    this.#apply.observe(seconds);
    for (const { at, events } of commits)
      for (const { type } of events) {
        const name = isEventType(type) ? type : 'other';
        this.#events.set(name, (this.#events.get(name) ?? 0) + 1);
        if (type === 'key.revoked' && isLive)
          this.#propagation.observe(Math.max(0, wallClockMs() - Date.parse(at)) / 1000);
      }
  }

  quarantined(): void {
    this.#quarantined.inc();
  }

  /** Registers metrics that read the current snapshot and replicator. Call it once. */
  watch(source: () => FoldSource): void {
    const metrics = new ObservedMetrics(this.registry);
    metrics.gauge(
      'headgate_fold_position',
      'position (seq) of the last folded commit',
      () => source().snapshot.seq,
    );
    metrics.gauge(
      'headgate_fold_applied_offset',
      'log offset after the last consumed record',
      () => source().snapshot.nextOffset,
    );
    metrics.gauge('headgate_fold_head_offset', 'end of the log, when the process last asked for it', () =>
      Math.max(source().snapshot.nextOffset, source().replicator.endOffset),
    );
    // The snapshot stores this count, so it restarts at 0 if a gateway replaces its snapshot. A counter may do so.
    metrics.counter(
      'headgate_fold_skipped_total',
      'records skipped because they did not extend the chain',
      () => source().snapshot.skipped,
    );
    metrics.gauge(
      'headgate_fold_lag_seconds',
      'time since the last proof of freshness; -1 before the first one',
      () => {
        const seconds = source().replicator.freshness.ageSeconds();
        return Number.isFinite(seconds) ? seconds : -1;
      },
    );
    metrics.gauge('headgate_log_reachable', '1 while the control log answers', () =>
      Number(source().replicator.reachable),
    );
    metrics.gauge(
      'headgate_fold_halted',
      '1 while the fold has stopped, because of an unknown event or a fault',
      () => Number(source().snapshot.halt !== undefined || source().replicator.fault !== undefined),
    );
  }
}
