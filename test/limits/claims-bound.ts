/**
 * Compares a simulated fleet with its limit. It knows the fleet's true state, unlike the simulated gateways: it counts the
 * requests admitted, the excess that docs/limits.md allows, and the requests refused although there was room.
 */

import type { Claimant } from '../../data-plane/limits/claimant.ts';
import { type GaugeRecord, inFlightWindow } from '../../schemas/records/gauges.ts';

export interface Outcome {
  readonly limit: number;
  gateways: number;
  admitted: number;
  refused: number;
  /** Number of requests refused while the whole fleet had room. */
  refusedFalsely: number;
  waits: number;
  waitedMs: number;
  waitedMsMax: number;
  /** Largest excess above the limit, in requests. */
  over: number;
  /** Largest excess above the documented bound, in requests. */
  beyond: number;
  beyondAtMs: number;
  /**
   * Longest time, in ms, in which a connected gateway wrongly refused all its requests and received at least one per second.
   */
  starvedMs: number;
  starvedAtMs: number;
  /** Longest time, in ms, in which a connected gateway wrongly refused all its requests, at any request rate. */
  starvedRareMs: number;
  /** Longest time between two requests that one gateway admitted, in ms. */
  unservedMs: number;
}

export interface Stream {
  readonly weight: number;
  /** Reason why the stream was admitted although the log had not granted room for it. */
  exempt: 'first' | 'share' | 'orphan' | undefined;
}

export interface BoundGateway {
  readonly claimant: Claimant;
  readonly streams: Set<Stream>;
  /** The limit that this gateway currently knows. Set only if gateways may know different limits. */
  readonly limit?: number;
  /** Time of the first wrong refusal since the gateway last admitted a request, rightly refused one or was interrupted. */
  starvedSinceMs: number | undefined;
  /** Like `starvedSinceMs`, but kept however rarely the gateway receives requests. */
  starvedRareSinceMs: number | undefined;
  refusedMs: number;
  servedMs: number;
}

interface LoggedRecord {
  readonly record: GaugeRecord;
  readonly atMs: number;
}

/** Time for which an exempt stream still widens the bound, because streams that replaced it may be in flight, in ms. */
const replacedMs = 500;
/** A gateway's grants in flight no longer count once it has been cut off from the log for longer than this, in ms. */
const grantedMs = 8000;
/** A gateway that was alone no longer holds all room once it has been silent for longer than this, in ms. */
const silentMs = 2500;
/**
 * Longest pause between refusals that count as starvation, in ms. If refusals are rarer, each may just coincide with reports
 * that leave no room.
 */
const askedMs = 1000;
/** If a gateway's own last record is older than this, in ms, the gateway counts as cut off rather than starved. */
const connectedMs = 1500;

export class Bound {
  readonly outcome: Outcome;
  readonly #limit: number;
  readonly #gateways: readonly BoundGateway[];
  readonly #log: readonly LoggedRecord[];
  /** Number of requests admitted per minute, keyed by the minute's start. */
  readonly #admitted = new Map<number, number>();
  /** Excess that the bound allows, keyed by the minute's start and then by reason. */
  readonly #allowed = new Map<number, Map<string, number>>();
  /** Weights of exempt streams in the last moments. Requests that they displaced may still be in flight. */
  #exemptPeaks: { atMs: number; weight: number }[] = [];
  /**
   * Number of requests that each process admitted while it was the only gateway, keyed by process and then by the minute's
   * start.
   */
  readonly #alone = new Map<string, Map<number, number>>();
  /** Processes that were killed or stopped, whether or not their last record reached the log. */
  readonly #over = new Set<string>();
  #inFlight = 0;
  /** Further excess that the bound allows until the changed limit in `#settled` applies. */
  #excused = 0;
  #settled = { limit: 0, from: Number.POSITIVE_INFINITY };

  constructor(limit: number, gateways: readonly BoundGateway[], log: readonly LoggedRecord[]) {
    this.#limit = limit;
    this.#gateways = gateways;
    this.#log = log;
    this.outcome = {
      ...{ limit, gateways: 0, admitted: 0, refused: 0, refusedFalsely: 0, waits: 0, waitedMs: 0 },
      ...{ waitedMsMax: 0, over: 0, beyond: 0, beyondAtMs: 0, starvedMs: 0, starvedAtMs: 0 },
      ...{ starvedRareMs: 0, unservedMs: 0 },
    };
  }

  excuse(amount: number): void {
    this.#excused = amount;
  }

  /**
   * Applies this limit without further excess: from the minute `from` on, or from the moment `from` for requests in flight.
   */
  settle(limit: number, from: number): void {
    this.#settled = { limit, from };
  }

  waited(ms: number): void {
    this.outcome.waitedMs += ms;
    this.outcome.waitedMsMax = Math.max(this.outcome.waitedMsMax, ms);
  }

  served(gateway: BoundGateway, nowMs: number): void {
    this.outcome.admitted++;
    gateway.servedMs = nowMs;
  }

  /**
   * Counts a refusal. `wanted` is the weight of the request plus that of earlier waiting requests, which have room promised
   * to them.
   */
  refuse(gateway: BoundGateway, window: number, wanted: number, nowMs: number): void {
    this.outcome.refused++;
    this.outcome.unservedMs = Math.max(this.outcome.unservedMs, nowMs - gateway.servedMs);
    const taken = window === inFlightWindow ? this.#inFlight : (this.#admitted.get(window) ?? 0);
    const isFalse = taken + wanted <= (gateway.limit ?? this.#limit);
    if (isFalse) this.outcome.refusedFalsely++;
    if (nowMs - gateway.refusedMs > askedMs) gateway.starvedSinceMs = undefined;
    gateway.refusedMs = nowMs;
    if (!isFalse || gateway.claimant.feedAgeMs(nowMs) > connectedMs) this.notStarved(gateway);
    else {
      gateway.starvedSinceMs ??= nowMs;
      gateway.starvedRareSinceMs ??= nowMs;
    }
    const rareMs = nowMs - (gateway.starvedRareSinceMs ?? nowMs);
    this.outcome.starvedRareMs = Math.max(this.outcome.starvedRareMs, rareMs);
    const starvedMs = nowMs - (gateway.starvedSinceMs ?? nowMs);
    if (starvedMs <= this.outcome.starvedMs) return;
    this.outcome.starvedMs = starvedMs;
    this.outcome.starvedAtMs = nowMs;
  }

  admitRate(gateway: BoundGateway, window: number, exempt: Stream['exempt'], nowMs: number): void {
    const { claimant } = gateway;
    this.notStarved(gateway);
    const count = (this.#admitted.get(window) ?? 0) + 1;
    this.#admitted.set(window, count);
    if (exempt === 'first') this.#allow(window, `${claimant.process} first`, 1);
    if (exempt === 'share') {
      const share = Math.max(1, Math.floor(this.#limit / claimant.live));
      this.#allow(window, `${claimant.process} share`, share);
    }
    if (claimant.isAlone) this.#countAlone(claimant.process, window);
    this.#allowSilent(claimant.process, window, nowMs);
    let allowed = 0;
    for (const amount of this.#allowed.get(window)?.values() ?? []) allowed += amount;
    this.#measure(count, allowed, nowMs, window);
  }

  admitStream(gateway: BoundGateway, stream: Stream, nowMs: number): void {
    this.notStarved(gateway);
    gateway.streams.add(stream);
    this.#inFlight += stream.weight;
    let exempt = 0;
    for (const { streams, claimant } of this.#gateways) {
      exempt += this.#unpublished(claimant, nowMs);
      const isLong = claimant.feedAgeMs(nowMs) > grantedMs;
      for (const { weight, exempt: why } of streams) if (isLong || why !== undefined) exempt += weight;
    }
    this.#exemptPeaks = this.#exemptPeaks.filter(
      ({ atMs, weight }) => atMs > nowMs - replacedMs && weight > exempt,
    );
    this.#exemptPeaks.push({ atMs: nowMs, weight: exempt });
    this.#measure(this.#inFlight, Math.max(...this.#exemptPeaks.map(({ weight }) => weight)), nowMs);
  }

  /** Ends the stream. Returns false if it had already ended. */
  endStream({ streams }: BoundGateway, stream: Stream): boolean {
    if (!streams.delete(stream)) return false;
    this.#inFlight -= stream.weight;
    return true;
  }

  /**
   * Allows excess for the requests that a killed gateway admitted while alone and had not logged, because their room may be
   * used twice.
   */
  killed({ claimant }: BoundGateway): void {
    if (!claimant.isAlone) return;
    for (const [window] of this.#admitted) {
      const used = claimant.used({ subject: 'acme', window, limit: this.#limit });
      const known = this.#lastUsed(claimant.process, window);
      if (used > known) this.#allow(window, `${claimant.process} alone`, used - known);
    }
  }

  /** Ends the gateway's starvation, because it admitted a request, rightly refused one, was interrupted or was cut off. */
  notStarved(gateway: BoundGateway): void {
    gateway.starvedSinceMs = undefined;
    gateway.starvedRareSinceMs = undefined;
  }

  ended(gateway: BoundGateway): void {
    this.#over.add(gateway.claimant.process);
    this.notStarved(gateway);
    for (const { weight } of gateway.streams) this.#inFlight -= weight;
    gateway.streams.clear();
  }

  #countAlone(process: string, window: number): void {
    const counts = this.#alone.get(process) ?? new Map<number, number>();
    this.#alone.set(process, counts.set(window, (counts.get(window) ?? 0) + 1));
  }

  /**
   * Allows excess for the unlogged requests of a gateway that was alone, once it has been silent for so long that others
   * admit requests.
   */
  #allowSilent(process: string, window: number, nowMs: number): void {
    for (const [other, counts] of this.#alone) {
      const reason = `${other} alone`;
      const count = other === process ? undefined : counts.get(window);
      if (count === undefined || this.#allowed.get(window)?.has(reason)) continue;
      const last = this.#log.findLast(({ record }) => record.process === other);
      if (this.#over.has(other) || nowMs - (last?.atMs ?? 0) > silentMs)
        this.#allow(window, reason, Math.max(0, count - this.#lastUsed(other, window)));
    }
  }

  #allow(window: number, reason: string, amount: number): void {
    const reasons = this.#allowed.get(window) ?? new Map<string, number>();
    this.#allowed.set(window, reasons);
    reasons.set(reason, Math.max(reasons.get(reason) ?? 0, amount));
  }

  /** Returns the unpublished usage of a gateway that was alone and has been silent for so long that others take its room. */
  #unpublished(claimant: Claimant, nowMs: number): number {
    if (!claimant.isAlone || claimant.feedAgeMs(nowMs) <= silentMs) return 0;
    const used = claimant.used({ subject: 'acme', window: inFlightWindow, limit: this.#limit });
    return Math.max(0, used - this.#lastUsed(claimant.process, inFlightWindow));
  }

  /**
   * Returns the process's last usage in the log. Skips records whose number is not larger than those of all earlier records.
   */
  #lastUsed(process: string, window: number): number {
    let [last, known] = [0, 0];
    for (const { record } of this.#log) {
      if (record.process !== process || record.n <= last) continue;
      last = record.n;
      known = record.entries.find((entry) => entry.window === window)?.used ?? known;
    }
    return known;
  }

  #measure(taken: number, allowed: number, nowMs: number, at = nowMs): void {
    const { limit, from } = this.#settled;
    const isSettled = at >= from;
    const over = taken - (isSettled ? limit : this.#limit);
    this.outcome.over = Math.max(this.outcome.over, over);
    const beyond = over - allowed - (isSettled ? 0 : this.#excused);
    if (beyond <= this.outcome.beyond) return;
    this.outcome.beyond = beyond;
    this.outcome.beyondAtMs = nowMs;
  }
}
