/** Metrics of a counter feed, in a separate file because a feed on a worker thread does not need the metrics library. */
import type { Registry } from 'prom-client';
import { ObservedMetrics } from '../runtime/observed-metrics.ts';
import type { CounterFeedCounts } from './counter-feed.ts';

/** Registers metrics for the counter records that a process publishes and reads. */
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
