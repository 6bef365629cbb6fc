/** Records the counter values that one decision read, because counters will have changed when the decision is explained. */
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { Counters } from '../../shared/decision/decide.ts';
import type { LimitKind, RateWindow } from '../../shared/decision/limits.ts';

/** Amounts of a limit used and free here. If the limit is fleet-wide, also those that other gateways use and hold. */
export type UseCells = readonly number[];

interface SeenLimits {
  requests: UseCells | undefined;
  concurrency: UseCells | undefined;
}
interface SeenVisitors extends SeenLimits {
  windowUsed: number;
  inFlight: number;
  tokens: number;
}

export class SeenCounters implements Counters {
  readonly #counters: Counters;
  /** Time at which limits were checked, in ms since 1970, or 0. From it follows how long a refused client has to wait. */
  atMs = 0;
  windowUsed = 0;
  unitsInFlight = 0;
  tokensUsed = 0;
  turnsUsed = 0;
  networkTurnsUsed: number | undefined;
  /** Values for all visitors together. Undefined if the decision has not read them. */
  visitors: SeenVisitors | undefined;
  /** Use of the limits on requests and on concurrency, by this gateway and by others. */
  requests: UseCells | undefined;
  concurrency: UseCells | undefined;

  constructor(counters: Counters) {
    this.#counters = counters;
  }

  window(subject: string, nowMs: number, limit: number | null): RateWindow {
    const window = this.#counters.window(subject, nowMs, limit);
    this.#note('requests', subject, limit, window.used, nowMs);
    if (subject === visitorsSubject) {
      this.#ofVisitors().windowUsed = window.used;
      return window;
    }
    this.windowUsed = window.used;
    return window;
  }

  inFlight(subject: string, limit: number | null, weight: number): number {
    const used = this.#counters.inFlight(subject, limit, weight);
    this.#note('concurrency', subject, limit, used, this.atMs);
    if (subject === visitorsSubject) this.#ofVisitors().inFlight = used;
    else this.unitsInFlight = used;
    return used;
  }

  #note(kind: LimitKind, subject: string, limit: number | null, used: number, nowMs: number): void {
    if (limit === null) return;
    const users = this.#counters.users?.(kind, subject, nowMs, limit);
    if (users === undefined || 'used' in users) return;
    const { here, elsewhere, held = elsewhere } = users;
    const room = Math.max(0, limit - used);
    const seen: SeenLimits = subject === visitorsSubject ? this.#ofVisitors() : this;
    seen[kind] = elsewhere === undefined || held === undefined ? [here, room] : [here, room, elsewhere, held];
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

  #ofVisitors(): SeenVisitors {
    this.visitors ??= { windowUsed: 0, inFlight: 0, tokens: 0, requests: undefined, concurrency: undefined };
    return this.visitors;
  }
}
