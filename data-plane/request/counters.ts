/**
 * What is counted while requests pass: requests of each subject's present minute, and weights in flight.
 * Exact for this gateway. Other gateways' counters can be added behind the same `Counters` interface.
 * A lease is taken once and released once, whatever happens to the request.
 */
import { type Counters, type RateWindow, windowMs, windowStartMs } from '../../shared/decision/decide.ts';

/** The capacity that a request holds while it is in flight. */
export interface Lease {
  /** Releases the capacity. Idempotent. */
  release(): void;
  /**
   * Releases the capacity, and the request no longer counts in its minute either; at most `perMinute` times in a minute,
   * because each such request has cost a node a count. The second call does nothing.
   */
  cancel(perMinute: number | null): void;
}

export interface UsageView {
  poolTokensAt(organisation: string, anchor: string, atMs: number): number;
  freeTurns(visitor: string, atMs: number): number;
}

interface Minute {
  startMs: number;
  used: number;
  cancelled: number;
}

export class LocalCounters implements Counters {
  readonly #usage: UsageView;
  readonly #minutes = new Map<string, Minute>();
  readonly #inFlight = new Map<string, number>();
  #sweptMs = 0;

  constructor(usage: UsageView) {
    this.#usage = usage;
  }

  window(subject: string, nowMs: number): RateWindow {
    const startMs = windowStartMs(subject, nowMs);
    const minute = this.#minutes.get(subject);
    return { used: minute?.startMs === startMs ? minute.used : 0, endsAtMs: startMs + windowMs };
  }

  inFlight(subject: string): number {
    return this.#inFlight.get(subject) ?? 0;
  }

  poolTokens(organisation: string, anchor: string, nowMs: number): number {
    return this.#usage.poolTokensAt(organisation, anchor, nowMs);
  }

  freeTurns(visitor: string, nowMs: number): number {
    return this.#usage.freeTurns(visitor, nowMs);
  }

  /** Counts an admitted request against its minute and holds its weight until the lease is released. */
  reserve(subject: string, weight: number, nowMs: number): Lease {
    const startMs = windowStartMs(subject, nowMs);
    const minute = this.#minutes.get(subject);
    if (minute?.startMs === startMs) minute.used++;
    else this.#minutes.set(subject, { startMs, used: 1, cancelled: 0 });
    this.#inFlight.set(subject, this.inFlight(subject) + weight);
    this.#sweep(nowMs);
    let held = true;
    const release = (): boolean => {
      if (!held) return false;
      held = false;
      const rest = this.inFlight(subject) - weight;
      if (rest > 0) this.#inFlight.set(subject, rest);
      else this.#inFlight.delete(subject);
      return true;
    };
    return {
      release,
      cancel: (perMinute) => {
        if (release()) this.#uncount(subject, startMs, perMinute ?? Number.POSITIVE_INFINITY);
      },
    };
  }

  #uncount(subject: string, startMs: number, perMinute: number): void {
    const minute = this.#minutes.get(subject);
    if (minute?.startMs !== startMs || minute.cancelled >= perMinute) return;
    minute.used--;
    minute.cancelled++;
  }

  /** Sum over all subjects, for the metrics. */
  inFlightUnits(): number {
    let sum = 0;
    for (const weight of this.#inFlight.values()) sum += weight;
    return sum;
  }

  /** Past minutes are forgotten, so that the map is bounded by who called within two of them. */
  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < windowMs) return;
    this.#sweptMs = nowMs;
    for (const [subject, { startMs }] of this.#minutes)
      if (startMs + windowMs <= nowMs) this.#minutes.delete(subject);
  }
}
