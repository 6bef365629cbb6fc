/**
 * The truth of a simulated fleet, kept apart from what its gateways know: what was admitted where, what the bound of
 * docs/limits.md allows above the limit, and who was refused although there was room.
 */

import type { Claimant } from '../../data-plane/limits/claimant.ts';
import { type GaugeRecord, inFlightWindow } from '../../schemas/records/gauges.ts';

export interface Outcome {
  readonly limit: number;
  gateways: number;
  admitted: number;
  refused: number;
  /** Refused while the whole fleet had room. */
  refusedFalsely: number;
  waits: number;
  waitedMs: number;
  waitedMsMax: number;
  /** Most above the limit. */
  over: number;
  /** Most above the stated bound. */
  beyond: number;
  beyondAtMs: number;
  /** The longest time in which a gateway that reads the log refused falsely all that it was asked for, each second at least. */
  starvedMs: number;
  starvedAtMs: number;
  /** The same of gateways that are asked at any pace. */
  starvedRareMs: number;
  /** The longest time between two requests that one gateway admitted, ms. */
  unservedMs: number;
}

export interface Stream {
  readonly weight: number;
  /** Why the log granted no room for it. */
  exempt: 'first' | 'share' | 'orphan' | undefined;
}

export interface BoundGateway {
  readonly claimant: Claimant;
  readonly streams: Set<Stream>;
  /** As it knows it, where that is not the same for all. */
  readonly limit?: number;
  /** The first false refusal since something was admitted, refused rightly or interrupted. */
  starvedSinceMs: number | undefined;
  /** The same, however rarely it is asked. */
  starvedRareSinceMs: number | undefined;
  refusedMs: number;
  servedMs: number;
}

interface Logged {
  readonly record: GaugeRecord;
  readonly atMs: number;
}

/** What replaced a stream above the limit within this time is in the bound. */
const replacedMs = 500;
/** What was granted in flight counts no longer for a gateway that is cut off for so long. */
const grantedMs = 8000;
/** A gateway that was alone and is silent for so long does not hold all room any more. */
const silentMs = 2500;
/** Who is asked more rarely may meet moments in which the last reports left no room, and is not starved. */
const askedMs = 1000;
/** From here on a gateway without an own record is not starved, but cut off or about to be. */
const connectedMs = 1500;

export class Bound {
  readonly outcome: Outcome;
  readonly #limit: number;
  readonly #gateways: readonly BoundGateway[];
  readonly #log: readonly Logged[];
  /** Requests admitted, by the minute's label. */
  readonly #admitted = new Map<number, number>();
  /** What the bound allows above the limit, by the minute's label and its reason. */
  readonly #allowed = new Map<number, Map<string, number>>();
  /** Exempt weights of the last moments: what they displaced may be in flight still. */
  #exemptPeaks: { atMs: number; weight: number }[] = [];
  /** Requests that processes admitted while they were alone, by process and the minute's label. */
  readonly #alone = new Map<string, Map<number, number>>();
  /** Processes that were killed, or stopped, with or without their last record in the log. */
  readonly #over = new Set<string>();
  #inFlight = 0;
  /** Whatever else is allowed, and another limit, without that, of minutes and moments from then on. */
  #excused = 0;
  #settled = { limit: 0, from: Number.POSITIVE_INFINITY };

  constructor(limit: number, gateways: readonly BoundGateway[], log: readonly Logged[]) {
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

  /** From that minute, or moment of what is in flight, on this limit holds, and nothing is excused. */
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

  /** `wanted`: the weight of the request, and of those that wait before it, whose room is promised. */
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

  /** False where it ended before. */
  endStream({ streams }: BoundGateway, stream: Stream): boolean {
    if (!streams.delete(stream)) return false;
    this.#inFlight -= stream.weight;
    return true;
  }

  /** The gateway is killed: what it had admitted while it was alone, since its last record that is in the log, may count twice. */
  killed({ claimant }: BoundGateway): void {
    if (!claimant.isAlone) return;
    for (const [window] of this.#admitted) {
      const used = claimant.used({ subject: 'acme', window, limit: this.#limit });
      const known = this.#lastUsed(claimant.process, window);
      if (used > known) this.#allow(window, `${claimant.process} alone`, used - known);
    }
  }

  /** It was admitted, refused rightly, interrupted or cut off. */
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

  /** A gateway that was alone, and has been silent for so long that others admit, may have admitted what the log does not know. */
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

  /** What a gateway that was alone, and is silent for so long that others take its room, has not published yet. */
  #unpublished(claimant: Claimant, nowMs: number): number {
    if (!claimant.isAlone || claimant.feedAgeMs(nowMs) <= silentMs) return 0;
    const used = claimant.used({ subject: 'acme', window: inFlightWindow, limit: this.#limit });
    return Math.max(0, used - this.#lastUsed(claimant.process, inFlightWindow));
  }

  /** What the log says last: a record that comes after one with a larger number counts for nobody. */
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
