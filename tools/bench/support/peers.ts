/**
 * Generates the records that busy gateways publish, by the product's own rules and in simulated time. Requests are spread
 * evenly over the organisations. A twentieth of the organisations are close to the end of their allowance.
 */
import { randomUUID } from 'node:crypto';
import { Claimant } from '../../../data-plane/limits/claimant.ts';
import { type CounterLedger, GatewayCounters } from '../../../data-plane/limits/gateway-counters.ts';
import {
  decodeGauges,
  encodeGauges,
  type GaugeRecord,
  inFlightWindow,
} from '../../../schemas/records/gauges.ts';
import type { CounterEntry, CounterRecord } from '../../../schemas/records/limits.ts';
import { windowMs } from '../../../shared/decision/decide.ts';
import { CounterState, counterKey, type Sum } from '../../../shared/limits/counters.ts';

export interface Traffic {
  readonly peers: number;
  readonly organisations: number;
  /** Number of requests per second that all peers serve together. */
  readonly requestsPerSecond: number;
}

export interface PublishedRecord {
  /** Time of publication, in ms since the start of the measurement. */
  readonly atMs: number;
  readonly value: Buffer;
}

/** Ids of the simulated gateways. A gateway keeps its process id and replica id during the whole bench. */
const idsOf = Array.from({ length: 1000 }, () => randomUUID());

export const period = `${new Date().toISOString().slice(0, 8)}01`;
const stepMs = 10;
const tickMs = 200;
const heldMs = 1000;
/** Duration of a round trip to the log, in ms. */
const lagMs = 20;
const tokensPerRequest = 60;
const nearEndPart = 20;

class Ledger implements CounterLedger {
  readonly replica: string;
  readonly #sums = new Map<string, { tokens: number; turns: number }>();

  constructor(replica: string) {
    this.replica = replica;
  }

  get(key: string): Sum | undefined {
    return this.#sums.get(key);
  }

  add(key: string): void {
    const sum = this.#sums.get(key) ?? { tokens: 0, turns: 0 };
    sum.tokens += tokensPerRequest;
    sum.turns++;
    this.#sums.set(key, sum);
  }

  isOwnProcess(): boolean {
    return true;
  }

  *entries(): Generator<CounterEntry> {
    for (const [key, { tokens, turns }] of this.#sums) {
      const [subject = '', of = ''] = key.split(' ');
      yield [subject, of, tokens, turns];
    }
  }

  former(): [] {
    return [];
  }

  renew(): void {}
}

function pickOrganisation(traffic: Traffic): number {
  return Math.floor(Math.random() * traffic.organisations);
}

/** Generates counter records: first `warm` ones, until each peer has published all its counters, then those to measure. */
export function counterRecords(traffic: Traffic, seconds: number) {
  const { peers, requestsPerSecond } = traffic;
  const startMs = Date.now() - 130_000;
  const gateways = Array.from({ length: peers }, (_, index) => {
    const id = idsOf[index] ?? randomUUID();
    const ledger = new Ledger(id);
    const state = new CounterState();
    const live = () => peers;
    const counters = new GatewayCounters(
      { ledger, state, process: id, name: `edge-${index}`, live },
      startMs,
    );
    return { ledger, counters };
  });
  const warmMs = 65_000;
  const [warm, measured]: [PublishedRecord[], PublishedRecord[]] = [[], []];
  const perStep = (requestsPerSecond * tickMs) / 2000;
  for (let atMs = 0; atMs < warmMs + seconds * 1000; atMs += tickMs / 2) {
    for (let n = 0; n < perStep; n++) {
      const { ledger, counters } = gateways[Math.floor(Math.random() * peers)] as (typeof gateways)[number];
      const index = pickOrganisation(traffic);
      const key = counterKey(`organisation-${index}`, period);
      ledger.add(key);
      const limit = index % nearEndPart === 0 ? 1 : 1e12;
      counters.grown(key, tokensPerRequest, startMs + atMs, limit);
    }
    for (const { counters } of gateways)
      for (const record of counters.due(startMs + atMs))
        (atMs < warmMs ? warm : measured).push({
          atMs: atMs - warmMs,
          value: Buffer.from(JSON.stringify(record)),
        });
  }
  return { warm, measured };
}

interface Peer {
  readonly claimant: Claimant;
  readonly offsetMs: number;
  read: number;
  urgentMs: number | undefined;
}

/** Generates gauge records. Without requests, these are only the records that live gateways publish every second. */
export function gaugeRecords(traffic: Traffic, seconds: number) {
  const { peers, requestsPerSecond } = traffic;
  const gateways = Array.from({ length: peers }, (_, index): Peer => {
    const mint = () => idsOf[index] ?? randomUUID();
    const claimant = new Claimant({ name: `edge-${index}`, mint, live: peers });
    return { claimant, offsetMs: stepMs * (index % (tickMs / stepMs)), read: 0, urgentMs: undefined };
  });
  const log: { readonly value: Buffer; readonly record: GaugeRecord; readonly atMs: number }[] = [];
  const ending = new Map<number, (() => void)[]>();
  const warmMs = 5000;
  const window = Date.now() - (Date.now() % windowMs);
  let admitted = 0;
  const request = (nowMs: number): void => {
    const { claimant } = gateways[Math.floor(Math.random() * peers)] as Peer;
    const subject = `organisation-${pickOrganisation(traffic)}`;
    const rate = { subject, window, limit: 600 };
    const inFlight = { subject, window: inFlightWindow, limit: 100 };
    if (!claimant.admits(rate, 1, nowMs) || !claimant.admits(inFlight, 1, nowMs)) return;
    claimant.add(rate, 1, nowMs);
    claimant.add(inFlight, 1, nowMs);
    if (nowMs >= warmMs) admitted++;
    const ends = ending.get(nowMs + heldMs) ?? [];
    ending.set(nowMs + heldMs, ends);
    ends.push(() => claimant.remove(inFlight, 1));
  };
  const perStep = (requestsPerSecond * stepMs) / 1000;
  for (let nowMs = 0; nowMs < warmMs + seconds * 1000; nowMs += stepMs) {
    if (nowMs >= 1000) for (let n = 0; n < perStep; n++) request(nowMs);
    for (const end of ending.get(nowMs) ?? []) end();
    ending.delete(nowMs);
    for (const peer of gateways) {
      const { claimant } = peer;
      for (; peer.read < log.length && (log[peer.read]?.atMs ?? 0) + lagMs <= nowMs; peer.read++)
        claimant.onRecord((log[peer.read] as { record: GaugeRecord }).record, peer.read, nowMs);
      const isTick = nowMs % tickMs === peer.offsetMs;
      if (claimant.isUrgent) peer.urgentMs ??= nowMs + stepMs;
      if (!isTick && (peer.urgentMs === undefined || peer.urgentMs > nowMs)) continue;
      peer.urgentMs = undefined;
      for (const each of claimant.records(nowMs, window, !isTick)) {
        const value = encodeGauges(each);
        log.push({ value, record: decodeGauges(value) as GaugeRecord, atMs: nowMs });
      }
    }
  }
  const published = log.map(({ value, atMs }): PublishedRecord => ({ atMs: atMs - warmMs, value }));
  return {
    admitted,
    warm: published.filter(({ atMs }) => atMs < 0),
    measured: published.filter(({ atMs }) => atMs >= 0),
  };
}

const numbersOfRound = 1_000_000;

/** Renumbers published records for a later round, because readers skip numbers that they have already read. */
export function gaugesOfRound(records: readonly PublishedRecord[], round: number): PublishedRecord[] {
  const minute = Date.now() - (Date.now() % windowMs);
  return records.map(({ atMs, value }) => {
    const record = decodeGauges(value) as GaugeRecord;
    const entries = record.entries.map((entry) => ({
      ...entry,
      window: entry.window === inFlightWindow ? inFlightWindow : minute,
    }));
    return { atMs, value: encodeGauges({ ...record, n: record.n + round * numbersOfRound, entries }) };
  });
}

export function countersOfRound(records: readonly PublishedRecord[], round: number): PublishedRecord[] {
  return records.map(({ atMs, value }) => {
    const record = JSON.parse(value.toString()) as CounterRecord;
    const entries = record.entries.map(
      ([subject, of, tokens, turns]): CounterEntry => [
        subject,
        of,
        tokens + round * numbersOfRound,
        turns + round * numbersOfRound,
      ],
    );
    return { atMs, value: Buffer.from(JSON.stringify({ ...record, entries })) };
  });
}
