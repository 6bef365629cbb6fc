/** A histogram that keeps a reference to each series, because prom-client's look-up at every observation is expensive. */
import type { Metric, Registry } from 'prom-client';

export interface DistributionOptions {
  readonly name: string;
  readonly help: string;
  /** Upper bounds of the buckets, in ascending order. */
  readonly bounds: readonly number[];
  readonly registry: Registry;
}

type Labels = Readonly<Record<string, string>>;

/** Observations in one series of a histogram, which is identified by its labels. */
export class Observations {
  readonly labels: Labels;
  /** Number of observations per bucket, not cumulative. The last bucket counts values above all bounds. */
  readonly counts: number[];
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(labels: Labels, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket++;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += value;
  }

  reset(): void {
    this.counts.fill(0);
    this.sum = 0;
  }
}

export class Distribution {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Observations>();

  constructor({ name, help, bounds, registry }: DistributionOptions) {
    this.name = name;
    this.help = help;
    this.#bounds = bounds;
    registry.registerMetric(this as unknown as Metric);
  }

  /** Returns the series with these labels. Equal labels always return the same object. */
  series(labels: Labels): Observations {
    const key = JSON.stringify(labels);
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    const series = new Observations(labels, this.#bounds);
    this.#series.set(key, series);
    return series;
  }

  reset(): void {
    for (const series of this.#series.values()) series.reset();
  }

  /** Returns the cumulative buckets, sum and count of all series with observations (Prometheus text format 0.0.4). */
  get(): Promise<object> {
    const values = [...this.#series.values()].flatMap((series) => this.#toValues(series));
    return Promise.resolve({ name: this.name, help: this.help, type: this.type, aggregator: 'sum', values });
  }

  #toValues({ labels, counts, sum }: Observations): object[] {
    let count = 0;
    if (counts.every((own) => own === 0)) return [];
    const buckets = counts.map((own, index) => {
      count += own;
      const le = this.#bounds[index] ?? '+Inf';
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}
