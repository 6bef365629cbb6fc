/** Metrics of status records that were refused by the log or ignored by a reader. */
import { Counter, type Registry } from 'prom-client';
import type { RateLimitedLine } from '../runtime/rate-limited-line.ts';

function counter(registry: Registry, name: string, help: string, counts: RateLimitedLine): void {
  new Counter({
    name,
    help,
    registers: [registry],
    labelNames: ['cause'],
    collect() {
      this.reset();
      for (const [cause, count] of counts.totals) this.inc({ cause }, count);
    },
  });
}

export function countRefusedStatus(registry: Registry, refused: RateLimitedLine): void {
  const help = "records of this process's status that the log did not accept, by cause";
  counter(registry, 'headgate_status_refused_total', help, refused);
}

export function countIgnoredStatus(registry: Registry, ignored: RateLimitedLine): void {
  const help = 'records of the status topic that were ignored, by cause';
  counter(registry, 'headgate_status_ignored_total', help, ignored);
}
