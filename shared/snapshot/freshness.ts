/**
 * How fresh a snapshot is, without comparing the clocks of two machines: `freshAsOf` is a moment of this process at which
 * the snapshot held everything that the log had acknowledged. Age is the larger of the monotonic and the wall-clock
 * difference, because the monotonic clock may stand still while a machine sleeps and the wall clock may be set back.
 */

export interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** Seconds of age at which each step of the ladder begins. */
const ladderSeconds = { lagging: 15, draining: 30, fenced: 45 } as const;
export type FreshnessState = 'unproven' | 'ready' | 'lagging' | 'draining' | 'fenced';

export class Freshness {
  #asOf: Moment | undefined;

  now(): Moment {
    return { monotonicMs: performance.now(), wallMs: Date.now() };
  }

  get proven(): boolean {
    return this.#asOf !== undefined;
  }

  /** Everything acknowledged before this moment has been folded. */
  prove(moment: Moment): void {
    if (!this.#asOf || moment.monotonicMs > this.#asOf.monotonicMs) this.#asOf = moment;
  }

  /** Age of the last proof in seconds; infinite before the first. */
  ageSeconds(): number {
    if (!this.#asOf) return Number.POSITIVE_INFINITY;
    const monotonic = performance.now() - this.#asOf.monotonicMs;
    const wall = Date.now() - this.#asOf.wallMs;
    return Math.max(monotonic, wall, 0) / 1000;
  }

  state(): FreshnessState {
    if (!this.#asOf) return 'unproven';
    const age = this.ageSeconds();
    if (age > ladderSeconds.fenced) return 'fenced';
    if (age > ladderSeconds.draining) return 'draining';
    return age > ladderSeconds.lagging ? 'lagging' : 'ready';
  }
}
