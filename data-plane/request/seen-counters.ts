/** The counters of one decision, which remember what it read: they differ when it is explained. */
import { visitorsSubject } from '../../schemas/limits.ts';
import type { Counters } from '../../shared/decision/decide.ts';
import type { RateWindow } from '../../shared/decision/visitor-limits.ts';

export class SeenCounters implements Counters {
  readonly #counters: Counters;
  /** When the window was read: its refusal names the seconds that were left then. */
  atMs = 0;
  windowUsed = 0;
  unitsInFlight = 0;
  tokensUsed = 0;
  turnsUsed = 0;
  networkTurnsUsed: number | undefined;
  /** Of all visitors together, where they were asked for. */
  visitors: { windowUsed: number; inFlight: number; tokens: number } | undefined;

  constructor(counters: Counters) {
    this.#counters = counters;
  }

  window(subject: string, nowMs: number, limit: number | null): RateWindow {
    const window = this.#counters.window(subject, nowMs, limit);
    if (subject === visitorsSubject) {
      this.#ofVisitors().windowUsed = window.used;
      return window;
    }
    this.atMs = nowMs;
    this.windowUsed = window.used;
    return window;
  }

  inFlight(subject: string, limit: number | null, weight: number): number {
    if (subject === visitorsSubject) {
      const visitors = this.#ofVisitors();
      visitors.inFlight = this.#counters.inFlight(subject, limit, weight);
      return visitors.inFlight;
    }
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

  networkTurns(network: string, nowMs: number): number {
    this.networkTurnsUsed = this.#counters.networkTurns(network, nowMs);
    return this.networkTurnsUsed;
  }

  visitorTokens(nowMs: number): number {
    const visitors = this.#ofVisitors();
    visitors.tokens = this.#counters.visitorTokens(nowMs);
    return visitors.tokens;
  }

  #ofVisitors(): { windowUsed: number; inFlight: number; tokens: number } {
    this.visitors ??= { windowUsed: 0, inFlight: 0, tokens: 0 };
    return this.visitors;
  }
}
