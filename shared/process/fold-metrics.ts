/** The metrics that every process with a snapshot tells: how far its fold is, and how fresh. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Replicator } from '../snapshot/replicator.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';

export interface FoldMetrics {
  readonly registry: Registry;
  /** Brings the gauges up to date; called before a scrape. */
  update(): void;
}

export function foldMetrics(snapshot: () => Snapshot, replicator: () => Replicator): FoldMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers: [registry] });
  const position = gauge('headgate_fold_position', 'seq of the last commit folded');
  const offset = gauge('headgate_fold_applied_offset', 'log offset behind the last record consumed');
  const skipped = gauge('headgate_fold_skipped_total', 'records that did not extend the chain');
  const age = gauge(
    'headgate_fold_age_seconds',
    'seconds since the last proof of freshness, -1 before the first',
  );
  const reachable = gauge('headgate_log_reachable', '1 while the control log answers');
  const halted = gauge(
    'headgate_fold_halted',
    '1 when the fold stands still at an event it does not know, or on a fault',
  );
  return {
    registry,
    update: () => {
      const at = snapshot();
      const seconds = replicator().freshness.ageSeconds();
      position.set(at.seq);
      offset.set(at.nextOffset);
      skipped.set(at.skipped);
      age.set(Number.isFinite(seconds) ? seconds : -1);
      reachable.set(replicator().reachable ? 1 : 0);
      halted.set(at.halt || replicator().fault ? 1 : 0);
    },
  };
}
