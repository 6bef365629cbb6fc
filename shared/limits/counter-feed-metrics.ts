/** The metrics of a feed. Apart from it, because a feed on a thread needs no library of metrics. */
import type { Registry } from 'prom-client';
import { ObservedMetrics } from '../runtime/observed-metrics.ts';
import type { CounterFeedCounts } from './counter-feed.ts';

/** Registers what a process exchanges of counters as metrics. */
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
