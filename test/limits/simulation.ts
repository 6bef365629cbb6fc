/**
 * Gateways over one log, in simulated time, with the rules that the product runs. The truth (what was admitted where) is kept
 * here, apart from what the gateways know; every fault is drawn from the seed. Minutes are 8 s long, and gateways read 18 s back.
 */
import { type GaugeRecord, inFlightWindow } from '../../schemas/gauges.ts';
import { Claimant, type Limit } from '../../shared/limits/claimant.ts';

export interface Plan {
  readonly seed: number;
  readonly kind: 'rate' | 'concurrency';
  readonly faults: boolean;
  /** One client that stays on one gateway and sends the whole limit within 50 ms, without faults. */
  readonly sticky?: boolean;
}

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
}

const windowLengthMs = 8000;
const historyMs = 18_000;
const runMs = 26_000;
const tickMs = 200;
const waitMs = 500;

interface Stream {
  readonly weight: number;
  /** Why the log granted no room for it. */
  exempt: 'first' | 'share' | 'orphan' | undefined;
}

interface Gateway {
  readonly id: number;
  readonly offsetMs: number;
  claimant: Claimant;
  /** Changes at each start: events of an earlier start do nothing. */
  life: number;
  up: boolean;
  joinedMs: number;
  pausedUntilMs: number;
  awayUntilMs: number;
  next: number;
  isUrgentPlanned: boolean;
  streams: Set<Stream>;
  /** On its disk. */
  live: number;
  predecessor: string | undefined;
}

/** A small generator of random numbers: equal seeds give equal runs on all machines. */
function randomOf(seed: number): () => number {
  let state = (seed * 2654435761) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

class Agenda {
  readonly #heap: { atMs: number; order: number; run: () => void }[] = [];
  #order = 0;

  add(atMs: number, run: () => void): void {
    const heap = this.#heap;
    const item = { atMs, order: this.#order++, run };
    let index = heap.push(item) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (before(heap[parent], item)) break;
      heap[index] = heap[parent] as typeof item;
      index = parent;
    }
    heap[index] = item;
  }

  take(): { atMs: number; run: () => void } | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
      if (before(last, heap[child])) break;
      heap[index] = heap[child] as typeof last;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

type Item = { atMs: number; order: number } | undefined;
function before(a: Item, b: Item): boolean {
  if (a === undefined || b === undefined) return b === undefined;
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

export class Simulation {
  readonly #plan: Plan;
  readonly #random: () => number;
  readonly #agenda = new Agenda();
  readonly #gateways: Gateway[] = [];
  readonly #log: { readonly record: GaugeRecord; readonly atMs: number }[] = [];
  readonly #limit: number;
  readonly #lagMs: number;
  readonly #outcome: Outcome;
  /** Requests admitted, by the minute's label. */
  readonly #admitted = new Map<number, number>();
  /** What the bound allows above the limit, by the minute's label and its reason. */
  readonly #allowed = new Map<number, Map<string, number>>();
  /** Exempt weights of the last seconds: what they displaced may be in flight still. */
  #exemptPeaks: { atMs: number; weight: number }[] = [];
  #inFlight = 0;
  #nowMs = 0;
  #ids = 0;
  #logAwayUntilMs = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#random = randomOf(plan.seed);
    const { kind } = plan;
    const limits = kind === 'rate' ? [6, 12, 30, 60, 120] : [4, 8, 16, 48];
    this.#limit = plan.sticky ? 60 : this.#pick(limits);
    this.#lagMs = this.#pick([3, 10, 30]);
    this.#outcome = {
      limit: this.#limit,
      gateways: 0,
      ...{ admitted: 0, refused: 0, refusedFalsely: 0, waits: 0, waitedMs: 0, waitedMsMax: 0 },
      ...{ over: 0, beyond: 0, beyondAtMs: 0 },
    };
  }

  run(): Outcome {
    // In a part of the fleets one gateway is alone for long, and others join it late and leave early.
    const isSmall = this.#plan.faults && this.#chance(0.4);
    const count = 2 + this.#below(isSmall ? 2 : 5);
    this.#outcome.gateways = count;
    for (let id = 0; id < count; id++) this.#create(id);
    for (const gateway of this.#gateways) {
      const joins = this.#plan.faults && (isSmall ? gateway.id > 0 : this.#chance(0.2));
      this.#at(joins ? this.#between(1000, 20_000) : 0, () => this.#start(gateway));
    }
    if (this.#plan.sticky) this.#planSticky();
    else this.#planLoad();
    if (this.#plan.faults) this.#planFaults();
    for (;;) {
      const event = this.#agenda.take();
      if (event === undefined || event.atMs > runMs) return this.#outcome;
      this.#nowMs = event.atMs;
      event.run();
    }
  }

  #below(n: number): number {
    return Math.floor(this.#random() * n);
  }
  #between(from: number, to: number): number {
    return from + this.#random() * (to - from);
  }
  #chance(probability: number): boolean {
    return this.#random() < probability;
  }
  #pick<Value>(values: readonly Value[]): Value {
    return values[this.#below(values.length)] as Value;
  }
  #at(atMs: number, run: () => void): void {
    this.#agenda.add(atMs, run);
  }

  #create(id: number): void {
    this.#gateways.push({
      id,
      // Clocks of up to a second apart.
      offsetMs: this.#plan.faults ? this.#between(-500, 500) : this.#between(-5, 5),
      claimant: new Claimant({ name: `g${id}`, mint: () => 'none', live: 1 }),
      ...{ life: 0, up: false, joinedMs: 0, pausedUntilMs: 0, awayUntilMs: 0, next: 0 },
      ...{ isUrgentPlanned: false, streams: new Set(), live: 1, predecessor: undefined },
    });
  }

  // --- Gateways

  #start(gateway: Gateway): void {
    if (gateway.up) return;
    gateway.life++;
    gateway.up = true;
    gateway.joinedMs = this.#nowMs;
    gateway.claimant = new Claimant({
      name: `g${gateway.id}`,
      mint: () => `${gateway.id}-${++this.#ids}`,
      live: gateway.live,
      predecessor: gateway.predecessor,
    });
    gateway.predecessor = gateway.claimant.process;
    gateway.isUrgentPlanned = false;
    const from = this.#log.findIndex(({ atMs }) => atMs >= this.#nowMs - historyMs);
    gateway.next = from < 0 ? this.#log.length : from;
    this.#whenReadable(gateway, () => {
      this.#read(gateway, this.#log.length);
      this.#tick(gateway);
    });
  }

  /** Runs once the gateway is neither suspended nor without the log, unless it ended before. */
  #whenReadable(gateway: Gateway, run: () => void): void {
    const { life } = gateway;
    const attempt = () => {
      if (gateway.life !== life || !gateway.up) return;
      const until = Math.max(gateway.pausedUntilMs, gateway.awayUntilMs, this.#logAwayUntilMs);
      if (until > this.#nowMs) this.#at(until + this.#between(0, 50), attempt);
      else run();
    };
    attempt();
  }

  #whenRunning(gateway: Gateway, run: () => void): void {
    const { life } = gateway;
    const attempt = () => {
      if (gateway.life !== life || !gateway.up) return;
      if (gateway.pausedUntilMs > this.#nowMs) this.#at(gateway.pausedUntilMs, attempt);
      else run();
    };
    attempt();
  }

  #wallMs(gateway: Gateway): number {
    return this.#nowMs + gateway.offsetMs;
  }

  #tick(gateway: Gateway): void {
    const { life } = gateway;
    this.#publish(gateway, false);
    this.#at(this.#nowMs + tickMs, () => {
      if (gateway.life === life) this.#whenRunning(gateway, () => this.#tick(gateway));
    });
  }

  #publish(gateway: Gateway, urgent: boolean): void {
    const { claimant } = gateway;
    const before = claimant.process;
    const records = claimant.records(this.#nowMs, this.#wallMs(gateway), urgent);
    if (claimant.process !== before) this.#renewed(gateway);
    for (const record of records) this.#send(gateway, record);
  }

  #renewed(gateway: Gateway): void {
    gateway.predecessor = gateway.claimant.process;
    for (const stream of gateway.streams) stream.exempt = 'orphan';
  }

  #send(gateway: Gateway, record: GaugeRecord): void {
    const { faults } = this.#plan;
    let delayMs = this.#between(0.3, 1) * this.#lagMs;
    if (faults && this.#chance(0.03)) return;
    if (faults && this.#chance(0.02)) delayMs += this.#between(100, 12_000);
    const append = (): void => {
      const away = Math.max(gateway.awayUntilMs, this.#logAwayUntilMs);
      if (away > this.#nowMs) {
        // Part of what was on its way arrives once the log is back.
        if (this.#chance(0.5)) this.#at(away + this.#between(0, 300), append);
        return;
      }
      this.#log.push({ record, atMs: this.#nowMs });
      const upTo = this.#log.length;
      for (const reader of this.#gateways) {
        if (!reader.up) continue;
        this.#at(this.#nowMs + this.#between(0.3, 1) * this.#lagMs, () =>
          this.#whenReadable(reader, () => this.#read(reader, upTo)),
        );
      }
    };
    this.#at(this.#nowMs + delayMs, append);
    if (faults && this.#chance(0.02)) this.#at(this.#nowMs + delayMs + this.#between(0, 3000), append);
  }

  #read(gateway: Gateway, upTo: number): void {
    const { claimant } = gateway;
    const before = claimant.process;
    for (; gateway.next < upTo; gateway.next++) {
      const { record } = this.#log[gateway.next] as { record: GaugeRecord };
      claimant.onRecord(record, gateway.next, this.#nowMs);
    }
    if (claimant.process !== before) this.#renewed(gateway);
    gateway.live = claimant.live;
    this.#planUrgent(gateway);
  }

  #planUrgent(gateway: Gateway): void {
    if (gateway.isUrgentPlanned || !gateway.claimant.isUrgent) return;
    gateway.isUrgentPlanned = true;
    const { life } = gateway;
    this.#at(this.#nowMs + 10, () => {
      if (gateway.life !== life) return;
      this.#whenRunning(gateway, () => {
        gateway.isUrgentPlanned = false;
        this.#publish(gateway, true);
      });
    });
  }

  // --- Requests

  #limitOf(gateway: Gateway): Limit {
    const window =
      this.#plan.kind === 'concurrency'
        ? inFlightWindow
        : (Math.floor(this.#wallMs(gateway) / windowLengthMs) + 10) * windowLengthMs;
    return { subject: 'acme', window, limit: this.#limit };
  }

  #request(gateway: Gateway, weight: number, holdMs: number): void {
    if (!gateway.up || !this.#isReady(gateway)) return;
    this.#whenRunning(gateway, () => this.#decide(gateway, { weight, holdMs, sinceMs: this.#nowMs }));
  }

  /** A start waits until an own record was read back and no other process holds all room, 5 s at most. */
  #isReady({ claimant, joinedMs }: Gateway): boolean {
    return claimant.isReady(this.#nowMs) || this.#nowMs > joinedMs + 5000;
  }

  #decide(gateway: Gateway, request: { weight: number; holdMs: number; sinceMs: number }): void {
    const { claimant } = gateway;
    const limit = this.#limitOf(gateway);
    const { weight, sinceMs } = request;
    const nowMs = this.#nowMs;
    if (claimant.admits(limit, weight, nowMs)) {
      this.#admit(gateway, limit, request);
      return;
    }
    const untilMs = sinceMs + waitMs;
    if (untilMs > nowMs) {
      const { life } = gateway;
      const waiter = claimant.wait(limit, weight, untilMs, nowMs, (again) => {
        if (gateway.life !== life) return;
        if (again) this.#at(this.#nowMs, () => gateway.life === life && this.#decide(gateway, request));
        else this.#refuse(gateway, limit, weight, sinceMs);
      });
      if (waiter !== undefined) {
        if (sinceMs === nowMs) this.#outcome.waits++;
        this.#planUrgent(gateway);
        this.#at(untilMs, () => {
          if (gateway.life === life) this.#whenRunning(gateway, () => claimant.expire(this.#nowMs));
        });
        return;
      }
    }
    this.#refuse(gateway, limit, weight, sinceMs);
  }

  #waited(sinceMs: number): void {
    const ms = this.#nowMs - sinceMs;
    this.#outcome.waitedMs += ms;
    this.#outcome.waitedMsMax = Math.max(this.#outcome.waitedMsMax, ms);
  }

  #refuse(gateway: Gateway, limit: Limit, weight: number, sinceMs: number): void {
    this.#waited(sinceMs);
    this.#outcome.refused++;
    const taken = this.#plan.kind === 'rate' ? (this.#admitted.get(limit.window) ?? 0) : this.#inFlight;
    // Room that is promised to requests that wait here is not free.
    const waiting = gateway.claimant.waitingFor(limit);
    if (taken + waiting + weight <= this.#limit) this.#outcome.refusedFalsely++;
    this.#planUrgent(gateway);
  }

  #admit(
    gateway: Gateway,
    limit: Limit,
    { weight, holdMs, sinceMs }: { weight: number; holdMs: number; sinceMs: number },
  ): void {
    const { claimant } = gateway;
    const nowMs = this.#nowMs;
    this.#waited(sinceMs);
    this.#outcome.admitted++;
    const isCutOff = claimant.isCutOff(nowMs);
    const isFirst = !isCutOff && claimant.used(limit) + weight > claimant.room(limit, nowMs);
    const exempt = isCutOff ? 'share' : isFirst ? 'first' : undefined;
    claimant.add(limit, weight, nowMs);
    if (this.#plan.kind === 'rate') this.#admitRate(gateway, limit.window, exempt);
    else this.#admitStream(gateway, limit, { weight, exempt }, holdMs);
    this.#planUrgent(gateway);
  }

  #admitRate({ claimant }: Gateway, window: number, exempt: Stream['exempt']): void {
    const count = (this.#admitted.get(window) ?? 0) + 1;
    this.#admitted.set(window, count);
    if (exempt === 'first') this.#allow(window, `${claimant.process} first`, 1);
    if (exempt === 'share') {
      const share = Math.max(1, Math.floor(this.#limit / claimant.live));
      this.#allow(window, `${claimant.process} share`, share);
    }
    let allowed = 0;
    for (const amount of this.#allowed.get(window)?.values() ?? []) allowed += amount;
    this.#measure(count, allowed);
  }

  #allow(window: number, reason: string, amount: number): void {
    const reasons = this.#allowed.get(window) ?? new Map<string, number>();
    this.#allowed.set(window, reasons);
    reasons.set(reason, Math.max(reasons.get(reason) ?? 0, amount));
  }

  #admitStream(gateway: Gateway, limit: Limit, stream: Stream, holdMs: number): void {
    const { life } = gateway;
    gateway.streams.add(stream);
    this.#inFlight += stream.weight;
    this.#measureStreams();
    this.#at(this.#nowMs + holdMs, () =>
      this.#whenRunning(gateway, () => {
        if (gateway.life !== life || !gateway.streams.delete(stream)) return;
        this.#inFlight -= stream.weight;
        gateway.claimant.remove(limit, stream.weight, this.#nowMs);
        this.#planUrgent(gateway);
      }),
    );
  }

  #measureStreams(): void {
    let exempt = 0;
    for (const gateway of this.#gateways) {
      const { streams, claimant } = gateway;
      exempt += this.#unpublished(gateway);
      const isLong = claimant.feedAgeMs(this.#nowMs) > 8000;
      for (const stream of streams) if (isLong || stream.exempt !== undefined) exempt += stream.weight;
    }
    this.#exemptPeaks = this.#exemptPeaks.filter(
      ({ atMs, weight }) => atMs > this.#nowMs - 500 && weight > exempt,
    );
    this.#exemptPeaks.push({ atMs: this.#nowMs, weight: exempt });
    this.#measure(this.#inFlight, Math.max(...this.#exemptPeaks.map(({ weight }) => weight)));
  }

  /** What a gateway that was alone, and is silent for so long that others take its room, has not published yet. */
  #unpublished({ claimant }: Gateway): number {
    if (!claimant.isAlone || claimant.feedAgeMs(this.#nowMs) <= 2500) return 0;
    const records = this.#log.filter(({ record }) => record.process === claimant.process);
    const entries = records.flatMap(({ record }) => record.entries);
    const known = entries.findLast(({ window }) => window === inFlightWindow)?.used ?? 0;
    const used = claimant.used({ subject: 'acme', window: inFlightWindow, limit: this.#limit });
    return Math.max(0, used - known);
  }

  #measure(taken: number, allowed: number): void {
    const over = taken - this.#limit;
    this.#outcome.over = Math.max(this.#outcome.over, over);
    if (over - allowed <= this.#outcome.beyond) return;
    this.#outcome.beyond = over - allowed;
    this.#outcome.beyondAtMs = this.#nowMs;
  }

  // --- Load and faults

  #planSticky(): void {
    const gateway = this.#pick(this.#gateways);
    const startMs = 2 * windowLengthMs + this.#between(500, 3000);
    for (let i = 0; i < this.#limit; i++)
      this.#at(startMs + this.#between(0, 50), () => this.#request(gateway, 1, 0));
  }

  #planLoad(): void {
    const { kind } = this.#plan;
    const heavy = this.#chance(0.3);
    const holdMs = this.#pick([100, 1000, 4000]);
    const send = (gateway: Gateway) => {
      const weight = kind === 'concurrency' && heavy ? this.#pick([1, 1, 2, 4]) : 1;
      this.#request(gateway, weight, holdMs * this.#between(0.2, 2));
    };
    const sticky = this.#pick(this.#gateways);
    const style = this.#pick(['sustained', 'bursts', 'sticky', 'mixed'] as const);
    // Requests a second that make three times the limit.
    const perSecond =
      (this.#pick([0.5, 1, 3]) * this.#limit) / (kind === 'rate' ? windowLengthMs / 1000 : holdMs / 1000);
    const target = () => (style === 'sticky' ? sticky : this.#pick(this.#gateways));
    if (style !== 'bursts') {
      const gapMs = 1000 / Math.min(perSecond, 200);
      for (let atMs = 1500; atMs < runMs; atMs += gapMs * this.#between(0.2, 1.8)) {
        const gateway = target();
        this.#at(atMs, () => send(gateway));
      }
    }
    if (style === 'bursts' || style === 'mixed') {
      for (let atMs = this.#between(1500, 4000); atMs < runMs; atMs += this.#between(500, 9000)) {
        const size = Math.ceil(this.#limit * this.#between(0.3, 3));
        for (let i = 0; i < size; i++) {
          const gateway = target();
          this.#at(atMs + this.#between(0, 60), () => send(gateway));
        }
      }
    }
  }

  #planFaults(): void {
    for (const gateway of this.#gateways) {
      const count = this.#below(4);
      for (let i = 0; i < count; i++) {
        const fault = this.#pick([
          'crash',
          'crash',
          'leave',
          'pause',
          'pause',
          'away',
          'new folder',
        ] as const);
        this.#at(this.#between(1000, runMs), () => this.#strike(gateway, fault));
      }
    }
    if (this.#chance(0.3))
      this.#at(this.#between(2000, runMs), () => {
        this.#logAwayUntilMs = this.#nowMs + this.#between(200, 14_000);
      });
  }

  #strike(gateway: Gateway, fault: 'crash' | 'leave' | 'pause' | 'away' | 'new folder'): void {
    if (!gateway.up) return;
    if (fault === 'pause') {
      gateway.pausedUntilMs =
        this.#nowMs + this.#pick([300, 1900, 2600, 6000, 11_000]) * this.#between(0.8, 1.2);
    } else if (fault === 'away') gateway.awayUntilMs = this.#nowMs + this.#between(200, 14_000);
    else {
      if (fault === 'leave') this.#send(gateway, gateway.claimant.goodbye(this.#nowMs));
      else this.#noteLost(gateway);
      if (fault === 'new folder') {
        gateway.predecessor = undefined;
        gateway.live = 1;
      }
      this.#stop(gateway);
      this.#at(this.#nowMs + this.#between(100, 12_000), () => this.#start(gateway));
    }
  }

  /** What a gateway that was alone had admitted since its last record that is in the log. */
  #noteLost({ claimant }: Gateway): void {
    if (this.#plan.kind !== 'rate' || !claimant.isAlone) return;
    for (const [window] of this.#admitted) {
      const used = claimant.used({ subject: 'acme', window, limit: this.#limit });
      let known = 0;
      for (const { record } of this.#log)
        if (record.process === claimant.process)
          for (const entry of record.entries)
            if (entry.window === window) known = Math.max(known, entry.used);
      if (used > known) this.#allow(window, `${claimant.process} alone`, used - known);
    }
  }

  #stop(gateway: Gateway): void {
    gateway.up = false;
    gateway.life++;
    gateway.pausedUntilMs = 0;
    for (const { weight } of gateway.streams) this.#inFlight -= weight;
    gateway.streams.clear();
  }
}
