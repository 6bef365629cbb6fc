/** Usage rows by result, as a metric. Alert on `differing`, `lost`, `unread` and `junk`. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { UsageFile } from './usage-file.ts';
import type { FoldCounts } from './usage-fold.ts';

export function countUsageRows(registry: Registry, counts: Readonly<FoldCounts>): void {
  new Counter({
    name: 'headgate_usage_rows_total',
    help: 'rows read from the usage log since the start, by result',
    labelNames: ['outcome'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(counts)) this.inc({ outcome }, count);
    },
  });
}

export function countUsageFaults(registry: Registry, file: UsageFile): void {
  new Gauge({
    name: 'headgate_usage_file_faults',
    help: 'faults found in usage.db by its last check, and rows that readers left out since; 20 of each at most',
    registers: [registry],
    collect() {
      this.set(file.state.faults.length);
    },
  });
}
