/**
 * Measures how fresh a snapshot is without comparing clocks of two machines. A proof is a moment, by this process's clock, at
 * which the snapshot contained everything that the log had acknowledged. The age of the latest proof decides the state:
 *
 *                 over 15 s          over 30 s           over 45 s
 *    ┌────────┐──────────────►┌─────────┐──────►┌──────────┐──────►┌────────┐
 *    │ ready  │               │ lagging │       │ draining │       │ fenced │
 *    └────────┘◄──────────────┴─────────┘◄──────┴──────────┘◄──────┴────────┘
 *         ▲      a proof leads back to the state of the proof's age
 *         │ first proof
 *    ┌──────────┐
 *    │ unproven │   time alone never leads out of this state
 *    └──────────┘
 *
 * Age is the larger of the monotonic and the wall-clock difference, because the monotonic clock may stop while a machine is
 * suspended and the wall clock may be set back. A suspended process therefore wakes up in the state of its true age.
 */
import { wallClockMs } from '../runtime/clock.ts';

export interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export type FreshnessState = 'unproven' | 'ready' | 'lagging' | 'draining' | 'fenced';

/** Maximum age of the latest proof in each state, in seconds. States are listed in order of age. */
const ageSecondsMax = {
  ready: 15,
  lagging: 30,
  draining: 45,
  fenced: Number.POSITIVE_INFINITY,
} as const satisfies Record<Exclude<FreshnessState, 'unproven'>, number>;

function systemClock(): Moment {
  return { monotonicMs: performance.now(), wallMs: wallClockMs() };
}

export class Freshness {
  readonly #clock: () => Moment;
  #asOf: Moment | undefined;

  constructor(clock: () => Moment = systemClock) {
    this.#clock = clock;
  }

  now(): Moment {
    return this.#clock();
  }

  get proven(): boolean {
    return this.#asOf !== undefined;
  }

  /** Records a proof: the snapshot contains everything that the log had acknowledged before this moment. */
  prove(moment: Moment): void {
    if (!this.#asOf || moment.monotonicMs > this.#asOf.monotonicMs) this.#asOf = moment;
  }

  /** Age of the latest proof in seconds. Infinite before the first proof. */
  ageSeconds(): number {
    if (!this.#asOf) return Number.POSITIVE_INFINITY;
    const { monotonicMs, wallMs } = this.#clock();
    return Math.max(monotonicMs - this.#asOf.monotonicMs, wallMs - this.#asOf.wallMs, 0) / 1000;
  }

  /** Whether the proof is too old by the wall clock alone. That clock may be wrong, so a new proof must decide. */
  get isFencedByWallClock(): boolean {
    if (this.#asOf === undefined || this.state() !== 'fenced') return false;
    return this.#clock().monotonicMs - this.#asOf.monotonicMs <= ageSecondsMax.draining * 1000;
  }

  state(): FreshnessState {
    if (!this.#asOf) return 'unproven';
    const age = this.ageSeconds();
    if (age <= ageSecondsMax.ready) return 'ready';
    if (age <= ageSecondsMax.lagging) return 'lagging';
    return age <= ageSecondsMax.draining ? 'draining' : 'fenced';
  }
}
