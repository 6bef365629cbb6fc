/** Sums traffic in equal time steps. Because reports arrive irregularly, each is spread over the steps that it covers. */
import type { TrafficReport, TrafficSums } from '../../schemas/records/traffic.ts';

export interface StepRange {
  /** End of the last step in ms since 1970. */
  readonly untilMs: number;
  readonly stepMs: number;
  readonly steps: number;
}

/** A traffic report with the time in ms since 1970 when it was published. */
export interface CountedSpan {
  readonly atMs: number;
  readonly report: Pick<TrafficReport, 'fromMs' | 'toMs'>;
}

export interface StepSums {
  requests: number;
  tokens: number;
  /** Number of refused requests by error type. */
  readonly refused: Map<string, number>;
  readonly ownTime: number[];
  readonly firstToken: number[];
  /** Average number of requests in flight during the step. */
  inFlight: number;
}

export class TrafficSteps {
  readonly #range: StepRange;
  readonly #steps = new Map<number, StepSums>();

  constructor(range: StepRange) {
    this.#range = range;
  }

  add(
    counted: CountedSpan,
    { requests, promptTokens = 0, completionTokens = 0, ...more }: TrafficSums,
  ): void {
    this.#spread(counted, (step, part) => {
      step.requests += requests * part;
      step.tokens += (promptTokens + completionTokens) * part;
      for (const [type, refused] of Object.entries(more.refused ?? {}))
        step.refused.set(type, (step.refused.get(type) ?? 0) + refused.requests * part);
      addBuckets(step.ownTime, more.ownTime, part);
      addBuckets(step.firstToken, more.firstToken, part);
    });
  }

  addInFlight(counted: CountedSpan, inFlight: number): void {
    const parts = (counted.report.toMs - counted.report.fromMs) / this.#range.stepMs;
    this.#spread(counted, (step, part) => {
      step.inFlight += inFlight * part * parts;
    });
  }

  /** Returns the steps in which something was counted, in chronological order, each with its end in ms since 1970. */
  found(): (readonly [endMs: number, step: StepSums])[] {
    const { untilMs, stepMs } = this.#range;
    return [...this.#steps]
      .sort(([a], [b]) => b - a)
      .map(([stepsBefore, step]) => [untilMs - stepsBefore * stepMs, step] as const);
  }

  /** Calls `add` for each step that overlaps the report's time, with the share of the report that falls into the step. */
  #spread({ atMs, report }: CountedSpan, add: (step: StepSums, part: number) => void): void {
    const { untilMs, stepMs, steps } = this.#range;
    const spanMs = Math.max(1, report.toMs - report.fromMs);
    const first = Math.max(0, Math.floor((untilMs - atMs) / stepMs));
    for (let at = first; at < steps; at++) {
      const endMs = untilMs - at * stepMs;
      if (endMs <= atMs - spanMs) return;
      const sharedMs = Math.min(endMs, atMs) - Math.max(endMs - stepMs, atMs - spanMs);
      if (sharedMs > 0) add(this.#step(at), sharedMs / spanMs);
    }
  }

  #step(stepsBefore: number): StepSums {
    const known = this.#steps.get(stepsBefore);
    if (known !== undefined) return known;
    const step = { requests: 0, tokens: 0, refused: new Map(), ownTime: [], firstToken: [], inFlight: 0 };
    this.#steps.set(stepsBefore, step);
    return step;
  }
}

function addBuckets(into: number[], counts: readonly number[] = [], part: number): void {
  for (const [bucket, requests] of counts.entries()) into[bucket] = (into[bucket] ?? 0) + requests * part;
}

/** Interpolates a histogram's quantile as if each bucket's requests were spread evenly. Returns undefined if it is empty. */
export function interpolateQuantile(
  counts: readonly number[],
  bounds: readonly number[],
  share: number,
): number | undefined {
  const wanted = share * counts.reduce((sum, requests) => sum + requests, 0);
  let below = 0;
  for (const [bucket, requests] of counts.entries()) {
    const largest = bounds.at(-1) ?? 0;
    const [lower, upper] = [bounds[bucket - 1] ?? 0, bounds[bucket] ?? largest];
    if (requests > 0 && below + requests >= wanted)
      return lower + (upper - lower) * ((wanted - below) / requests);
    below += requests;
  }
  return undefined;
}
