/** Metrics whose values are stored elsewhere and read at each scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** Values of the metric's label, each with the number to report for it. */
type Series = Iterable<readonly [string, number]>;

export class ObservedMetrics {
  readonly #registers: Registry[];

  constructor(registry: Registry) {
    this.#registers = [registry];
  }

  gauge(name: string, help: string, read: () => number | Promise<number>): void {
    new Gauge({
      ...{ name, help, registers: this.#registers },
      async collect() {
        this.set(await read());
      },
    });
  }

  gauges(name: string, help: string, label: string, read: () => Series): void {
    new Gauge({
      ...{ name, help, labelNames: [label], registers: this.#registers },
      collect() {
        this.reset();
        for (const [value, number] of read()) this.set({ [label]: value }, number);
      },
    });
  }

  /** Registers a counter. `read` returns the total since the process started. */
  counter(name: string, help: string, read: () => number): void {
    new Counter({
      ...{ name, help, registers: this.#registers },
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** Registers a counter with one label. `read` returns the totals since the process started. */
  counters(name: string, help: string, label: string, read: () => Series): void {
    new Counter({
      ...{ name, help, labelNames: [label], registers: this.#registers },
      collect() {
        this.reset();
        for (const [value, count] of read()) this.inc({ [label]: value }, count);
      },
    });
  }
}
