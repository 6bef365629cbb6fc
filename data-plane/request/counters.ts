/**
 * Counts each subject's requests in the current minute, and the weight of its requests in flight. The counts are exact for
 * this gateway. Fleet-wide limits also include what other gateways use or hold. A request takes one lease, which is always
 * released exactly once.
 */
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { visitorPrefix } from '../../shared/decision/authenticate.ts';
import { type Counters, windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { LimitKind, LimitUsers, RateWindow } from '../../shared/decision/limits.ts';
import type { ExhaustedLimit } from '../../shared/decision/refusal.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import type { TierLimits } from '../../shared/snapshot/lookup.ts';

/** Share of the limits on a subject that a request holds while it is in flight. */
export interface Lease {
  /** Gives back the request's weight in flight. May be called more than once. */
  release(): void;
  /**
   * Gives back the request's weight in flight and removes the request from its minute, so that it does not count. At most
   * `perMinute` requests a minute can be removed, because each has made a node count tokens. A second call does nothing.
   */
  cancel(perMinute: number | null): void;
}

export interface UsageView {
  poolTokensAt(organisation: string, anchor: string, atMs: number): number;
  freeTurns(visitor: string, atMs: number): number;
  networkTurns(network: string, atMs: number): number;
  visitorTokens(atMs: number): number;
}

/** Limits that apply to the whole fleet. The gateways tell one another how much of these limits they use. */
export interface FleetLimits {
  /** Time in ms by which the clock that assigns requests to minutes is ahead of this process's clock. */
  readonly clockAheadMs: number;
  /** Time in ms by which the clock that counts periods is ahead of this process's clock. */
  readonly periodsAheadMs: number;
  /** Amount of the limit that must count as used when a request with this weight is decided. */
  taken(limit: Limit, weight: number): number;
  /** Amount that all gateways use, and amount that other gateways use or reserve, according to the log as read so far. */
  known(limit: Limit): { readonly used: number; readonly held: number };
  add(limit: Limit, weight: number): void;
  remove(limit: Limit, weight: number): void;
  /** Waits for room. Resolves to whether to decide the request again. Returns undefined if waiting cannot help. */
  waitForRoom(
    limit: Limit,
    weight: number,
    untilMs: number,
    signal: AbortSignal,
  ): Promise<boolean> | undefined;
}

type Limits = Pick<TierLimits, 'requestsPerMinute' | 'concurrency'>;
const unlimited: Limits = { requestsPerMinute: null, concurrency: null };

interface Minute {
  startMs: number;
  used: number;
  cancelled: number;
}

export class LocalCounters implements Counters {
  readonly #usage: UsageView;
  readonly #minutes = new Map<string, Minute>();
  readonly #inFlight = new Map<string, number>();
  /** Number of turns in progress, by visitor and by network. */
  readonly #turns = new Map<string, number>();
  #sweptMs = 0;

  readonly #fleet: FleetLimits | undefined;

  constructor(usage: UsageView, fleet?: FleetLimits) {
    this.#usage = usage;
    this.#fleet = fleet;
  }

  window(subject: string, nowMs: number, limit: number | null = null): RateWindow {
    const aheadMs = this.#clockAheadMs;
    const startMs = windowStartMs(subject, nowMs + aheadMs);
    const endsAtMs = startMs + windowMs - aheadMs;
    if (limit !== null && this.#fleet !== undefined && isFleetWide(subject))
      return { used: this.#fleet.taken({ subject, window: startMs, limit }, 1), endsAtMs };
    const minute = this.#minutes.get(subject);
    return { used: minute?.startMs === startMs ? minute.used : 0, endsAtMs };
  }

  get #clockAheadMs(): number {
    return this.#fleet?.clockAheadMs ?? 0;
  }

  #countMinute(subject: string, nowMs: number): number {
    return windowStartMs(subject, nowMs + this.#clockAheadMs);
  }

  inFlight(subject: string, limit: number | null = null, weight = 1): number {
    if (limit !== null && this.#fleet !== undefined && isFleetWide(subject))
      return this.#fleet.taken({ subject, window: inFlightWindow, limit }, weight);
    return this.#inFlight.get(subject) ?? 0;
  }

  users(kind: LimitKind, subject: string, nowMs: number, limit: number): LimitUsers {
    const window = kind === 'requests' ? this.#countMinute(subject, nowMs) : inFlightWindow;
    const minute = this.#minutes.get(subject);
    const inMinute = minute?.startMs === window ? minute.used : 0;
    const here = kind === 'requests' ? inMinute : (this.#inFlight.get(subject) ?? 0);
    if (this.#fleet === undefined || !isFleetWide(subject)) return { here };
    const { used, held } = this.#fleet.known({ subject, window, limit });
    const elsewhere = Math.max(0, used - here);
    return { here, elsewhere, held: Math.max(elsewhere, held) };
  }

  /** Waits for other gateways to give up room in the limit. Returns undefined if waiting cannot help. */
  waitForRoom(
    { kind, subject, limit, weight }: ExhaustedLimit,
    nowMs: number,
    untilMs: number,
    signal: AbortSignal,
  ): Promise<boolean> | undefined {
    if (!isFleetWide(subject)) return undefined;
    const window = kind === 'rate' ? this.#countMinute(subject, nowMs) : inFlightWindow;
    return this.#fleet?.waitForRoom({ subject, window, limit }, weight, untilMs, signal);
  }

  poolTokens(organisation: string, anchor: string, nowMs: number): number {
    return this.#usage.poolTokensAt(organisation, anchor, nowMs + (this.#fleet?.periodsAheadMs ?? 0));
  }

  freeTurns(visitor: string, nowMs: number): number {
    return this.#usage.freeTurns(visitor, nowMs) + (this.#turns.get(visitor) ?? 0);
  }

  networkTurns(network: string, nowMs: number): number {
    return this.#usage.networkTurns(network, nowMs) + (this.#turns.get(network) ?? 0);
  }

  visitorTokens(nowMs: number): number {
    return this.#usage.visitorTokens(nowMs);
  }

  /** Counts a request in its minute, and its weight in flight until the lease is released. */
  reserve(subject: string, weight: number, nowMs: number, limits: Limits = unlimited): Lease {
    const startMs = this.#countMinute(subject, nowMs);
    const minute = this.#minutes.get(subject);
    if (minute?.startMs === startMs) minute.used++;
    else this.#minutes.set(subject, { startMs, used: 1, cancelled: 0 });
    this.#inFlight.set(subject, this.inFlight(subject) + weight);
    const held = this.#hold(subject, weight, startMs, limits);
    this.#sweep(nowMs);
    let isHeld = true;
    const release = (): boolean => {
      if (!isHeld) return false;
      isHeld = false;
      this.#inFlight.set(subject, Math.max(this.inFlight(subject) - weight, 0));
      held?.release();
      return true;
    };
    return {
      release,
      cancel: (perMinute) => {
        if (release() && this.#uncount(subject, startMs, perMinute ?? Number.POSITIVE_INFINITY))
          held?.uncount();
      },
    };
  }

  /** Counts a visitor's turn while it is in progress, also for the visitor's network. Once completed, it counts as usage. */
  reserveTurn({
    visitor,
    network,
  }: {
    readonly visitor: string;
    readonly network?: string | undefined;
  }): () => void {
    const names = network === undefined ? [visitor] : [visitor, network];
    for (const name of names) this.#turns.set(name, (this.#turns.get(name) ?? 0) + 1);
    return () => {
      for (const name of names.splice(0)) {
        const left = (this.#turns.get(name) ?? 1) - 1;
        if (left > 0) this.#turns.set(name, left);
        else this.#turns.delete(name);
      }
    };
  }

  /** Counts a request in the fleet-wide limits on its subject, if there are any. */
  #hold(subject: string, weight: number, startMs: number, { requestsPerMinute, concurrency }: Limits) {
    const fleet = this.#fleet;
    if (fleet === undefined || !isFleetWide(subject)) return undefined;
    const rate = requestsPerMinute !== null && { subject, window: startMs, limit: requestsPerMinute };
    const inFlight = concurrency !== null && { subject, window: inFlightWindow, limit: concurrency };
    if (rate) fleet.add(rate, 1);
    if (inFlight) fleet.add(inFlight, weight);
    return {
      release: () => {
        if (inFlight) fleet.remove(inFlight, weight);
      },
      uncount: () => {
        if (rate) fleet.remove(rate, 1);
      },
    };
  }

  #uncount(subject: string, startMs: number, perMinute: number): boolean {
    const minute = this.#minutes.get(subject);
    if (minute?.startMs !== startMs || minute.cancelled >= perMinute) return false;
    minute.used--;
    minute.cancelled++;
    return true;
  }

  /** Total weight in flight for all subjects, for metrics. */
  inFlightUnits(): number {
    let sum = 0;
    for (const weight of this.#inFlight.values()) sum += weight;
    // A visitor's request is counted twice: for the visitor and for all visitors together. Subtract the second count.
    return sum - this.inFlight(visitorsSubject);
  }

  /** Removes past minutes and idle subjects, once a minute. Removing them per request would reallocate the map too often. */
  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < windowMs) return;
    this.#sweptMs = nowMs;
    for (const [subject, { startMs }] of this.#minutes)
      if (startMs + windowMs <= nowMs) this.#minutes.delete(subject);
    for (const [subject, weight] of this.#inFlight) if (weight === 0) this.#inFlight.delete(subject);
  }
}

/** Whether limits on the subject apply to the whole fleet. Limits on visitors do not: each gateway applies its own. */
function isFleetWide(subject: string): boolean {
  return !subject.startsWith(visitorPrefix);
}
