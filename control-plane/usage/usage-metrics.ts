/** Exports usage rows by result, and faults of `usage.db`, as metrics. Alert on `differing`, `lost`, `unread` and `junk`. */
import type { Registry } from 'prom-client';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import type { UsageFile } from './usage-file.ts';
import type { FoldCounts } from './usage-fold.ts';

export function countUsageRows(registry: Registry, counts: Readonly<FoldCounts>): void {
  new ObservedMetrics(registry).counters(
    'headgate_usage_rows_total',
    'rows read from the usage log since the start, by result',
    'outcome',
    () => Object.entries(counts),
  );
}

export function countUsageFaults(registry: Registry, file: UsageFile): void {
  new ObservedMetrics(registry).gauge(
    'headgate_usage_file_faults',
    'faults found in usage.db by its last check, and rows left out since; at most 20 of each',
    () => file.state.faults.length,
  );
}
