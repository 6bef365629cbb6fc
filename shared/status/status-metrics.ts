/** Metrics of status records that the log refused to append or that readers ignored. */
import type { Registry } from 'prom-client';
import { ObservedMetrics } from '../runtime/observed-metrics.ts';
import type { RateLimitedLine } from '../runtime/rate-limited-line.ts';

export function countRefusedStatus(registry: Registry, refused: RateLimitedLine): void {
  const help = 'status records of this process that the log did not accept, by cause';
  new ObservedMetrics(registry).counters(
    'headgate_status_refused_total',
    help,
    'cause',
    () => refused.totals,
  );
}

export function countIgnoredStatus(registry: Registry, ignored: RateLimitedLine): void {
  const help = 'ignored records of the status topic, by cause';
  new ObservedMetrics(registry).counters(
    'headgate_status_ignored_total',
    help,
    'cause',
    () => ignored.totals,
  );
}
