/** Metrics of a feed. They are separate, because a feed on a thread does not need the metrics library. */
import type { Registry } from 'prom-client';
import { ObservedMetrics } from '../runtime/observed-metrics.ts';
import type { CounterFeedCounts } from './counter-feed.ts';

/** Registers metrics of the counter records that a process exchanges. */
export function measureCounterFeed(registry: Registry, counts: () => CounterFeedCounts): void {
  const metrics = new ObservedMetrics(registry);
  metrics.counter(
    'headgate_counters_published_total',
    'records of counters published since the start',
    () => counts().published,
  );
  metrics.counter(
    'headgate_counters_rejected_total',
    'records of counters ignored since the start, because they were foreign, damaged or out of bounds',
    () => counts().rejected,
  );
}
