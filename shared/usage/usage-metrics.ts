/** Usage rows by result, as a metric. Alert on `differing`, `lost`, `unread` and `junk`. */
import { Counter, type Registry } from 'prom-client';
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
