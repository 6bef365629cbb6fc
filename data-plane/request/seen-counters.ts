/** The counters of one decision, which remember what it read: they differ when it is explained. */
import type { Counters, RateWindow } from '../../shared/decision/decide.ts';

export class SeenCounters implements Counters {
  readonly #counters: Counters;
  /** When the window was read: its refusal names the seconds that were left then. */
  atMs = 0;
  windowUsed = 0;
  unitsInFlight = 0;
  tokensUsed = 0;
  turnsUsed = 0;

  constructor(counters: Counters) {
    this.#counters = counters;
  }

  window(subject: string, nowMs: number, limit: number | null): RateWindow {
    const window = this.#counters.window(subject, nowMs, limit);
    this.atMs = nowMs;
    this.windowUsed = window.used;
    return window;
  }

  inFlight(subject: string, limit: number | null, weight: number): number {
    this.unitsInFlight = this.#counters.inFlight(subject, limit, weight);
    return this.unitsInFlight;
  }

  poolTokens(organisation: string, anchor: string, nowMs: number): number {
    this.tokensUsed = this.#counters.poolTokens(organisation, anchor, nowMs);
    return this.tokensUsed;
  }

  freeTurns(visitor: string, nowMs: number): number {
    this.turnsUsed = this.#counters.freeTurns(visitor, nowMs);
    return this.turnsUsed;
  }
}
