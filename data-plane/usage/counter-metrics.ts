/** What a gateway exchanges of counters, as metrics. */
import { Counter, type Registry } from 'prom-client';
import type { Meter } from './meter.ts';

export function countCounterRecords(registry: Registry, meter: Pick<Meter, 'counterRecords'>): void {
  for (const [what, help] of [
    ['published', 'records of counters published since the start'],
    ['rejected', 'records of counters that were foreign, damaged or out of bounds since the start'],
  ] as const)
    new Counter({
      name: `headgate_counters_${what}_total`,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(meter.counterRecords[what]);
      },
    });
}
