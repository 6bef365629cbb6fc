/**
 * Simulates several gateways on one log in simulated time, with the product's own rules for limits. Every fault is drawn from
 * the seed. A simulated minute is 8 s long, and starting gateways read the last 18 s of the log.
 */

import { Claimant } from '../../data-plane/limits/claimant.ts';
import { LogClock } from '../../data-plane/limits/log-clock.ts';
import { type GaugeRecord, inFlightWindow } from '../../schemas/records/gauges.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import { readGauges } from '../support/read-gauges.ts';
import { Agenda, Dice } from './agenda.ts';
import { Bound, type BoundGateway, type Outcome, type Stream } from './claims-bound.ts';
import {
  type Fault,
  minuteMs,
  type Plan,
  planBusy,
  planChange,
  planClocks,
  planFaults,
  planLoad,
  planSaturation,
  planSticky,
  runMs,
  type Scene,
} from './claims-plan.ts';

const historyMs = runMs;
/** Time at which the simulation starts according to the log's clock, in ms since 1970. */
const startsAtMs = 100_000_000 * minuteMs;
const tickMs = 200;
const waitMs = 2000;
/** Time between two reads of the log by a gateway that holds no requests, in ms. */
const idleRestMs = 200;

interface Gateway extends BoundGateway {
  readonly id: number;
  readonly offsetMs: number;
  /** Temporary error of the gateway's clock, in ms, on top of the constant `offsetMs`. */
  offMs: number;
  clock: LogClock;
  limit: number;
  claimant: Claimant;
  /** Changes at each start, so that events scheduled before a restart have no effect afterwards. */
  life: number;
  up: boolean;
  joinedMs: number;
  pausedUntilMs: number;
  awayUntilMs: number;
  next: number;
  isUrgentPlanned: boolean;
  isSettlePlanned: boolean;
  /** Number of live gateways that this gateway last stored on its disk. */
  live: number;
  predecessor: string | undefined;
}

interface Request {
  readonly weight: number;
  readonly holdMs: number;
  readonly sinceMs: number;
  /** Called once the request has been served or refused. */
  readonly ended?: ((isServed: boolean) => void) | undefined;
}

export class Simulation {
  readonly #plan: Plan;
  readonly #dice: Dice;
  readonly #agenda = new Agenda();
  readonly #gateways: Gateway[] = [];
  readonly #log: { readonly record: GaugeRecord; readonly read: GaugeRecord; readonly atMs: number }[] = [];
  readonly #limit: number;
  readonly #nextLimit: number;
  readonly #lagMs: number;
  readonly #bound: Bound;
  #nowMs = 0;
  #ids = 0;
  #logAwayUntilMs = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#dice = new Dice(plan.seed);
    const usual = plan.kind === 'rate' ? [6, 12, 30, 60, 120] : [4, 8, 16, 48];
    const limits = plan.saturated
      ? [4, 8, 16]
      : plan.slow
        ? [1, 4, 16, 60, 600, 100_000]
        : plan.fleet === 'large'
          ? [60, 120, 600]
          : usual;
    this.#limit = plan.sticky ? 60 : this.#dice.pick(limits);
    this.#nextLimit =
      plan.fleet === 'changing'
        ? Math.max(1, Math.floor(this.#limit * this.#dice.pick([0.25, 0.5, 2, 4])))
        : this.#limit;
    this.#lagMs = this.#dice.pick(plan.slow ? [100, 300, 700] : [3, 10, 30]);
    this.#bound = new Bound(Math.max(this.#limit, this.#nextLimit), this.#gateways, this.#log);
  }

  run(): Outcome {
    const { sticky, kind, faults } = this.#plan;
    const dice = this.#dice;
    const isCalm = faults === 'none';
    // In small fleets one gateway is alone for a long time, because the others join late and leave early.
    const isSmall = !isCalm && dice.chance(0.4);
    const { slow, fleet } = this.#plan;
    const count = fleet === 'large' ? 50 : slow ? 1 + dice.below(10) : 2 + dice.below(isSmall ? 2 : 5);
    const { outcome } = this.#bound;
    outcome.gateways = count;
    for (let id = 0; id < count; id++) this.#create(id);
    for (const gateway of this.#gateways) {
      const joins = !isCalm && (isSmall ? gateway.id > 0 : dice.chance(0.2));
      this.#at(joins ? dice.between(1000, 20_000) : 0, () => this.#start(gateway));
    }
    const scene = {
      dice,
      limit: this.#limit,
      gateways: this.#gateways,
      at: (atMs: number, run: () => void) => this.#at(atMs, run),
      request: (gateway: Gateway, weight: number, holdMs: number) => this.#request(gateway, weight, holdMs),
      strike: (gateway: Gateway, fault: Fault) => this.#strike(gateway, fault),
      cutLog: (ms: number) => {
        this.#logAwayUntilMs = this.#nowMs + ms;
      },
    };
    if (sticky) planSticky(scene);
    else if (this.#plan.saturated)
      planSaturation(
        { ...scene, at: (ms, run) => this.#at(this.#nowMs + ms, run) },
        (gateway, holdMs, ended) => this.#request(gateway, 1, holdMs, ended),
        (gateway, ms) => this.#pause(gateway, ms),
      );
    else planLoad(kind, scene);
    planFaults(faults, scene);
    this.#planFleet(scene);
    if (slow) planBusy(scene, (gateway, ms) => this.#pause(gateway, ms));
    for (;;) {
      const event = this.#agenda.take();
      if (event === undefined || event.atMs > runMs) return outcome;
      this.#nowMs = event.atMs;
      event.run();
    }
  }

  #pause(gateway: Gateway, ms: number): void {
    gateway.pausedUntilMs = Math.max(gateway.pausedUntilMs, this.#nowMs + ms);
  }

  #planFleet(scene: Scene<Gateway>): void {
    const { fleet, kind } = this.#plan;
    if (fleet === 'clocks')
      planClocks(scene, (gateway, offMs) => {
        gateway.offMs = offMs;
      });
    if (fleet !== 'changing') return;
    const changedMs = planChange(scene, (gateway) => {
      gateway.limit = this.#nextLimit;
    });
    this.#bound.excuse(Math.floor(Math.max(this.#limit, this.#nextLimit) / 2));
    // Minutes that begin later have only the new limit. Requests in flight also do, once all earlier requests have ended.
    const settledMs = changedMs + (kind === 'rate' ? 1500 : 12_000);
    this.#bound.settle(this.#nextLimit, kind === 'rate' ? startsAtMs + settledMs : settledMs);
  }

  #at(atMs: number, run: () => void): void {
    this.#agenda.add(atMs, run);
  }

  #create(id: number): void {
    this.#gateways.push({
      id,
      // With all faults, two gateways' clocks differ by up to a second.
      offsetMs: this.#plan.faults === 'all' ? this.#dice.between(-500, 500) : this.#dice.between(-5, 5),
      ...{ offMs: 0, clock: new LogClock(), limit: this.#limit },
      claimant: new Claimant({ name: `g${id}`, mint: () => 'none', live: 1 }),
      ...{ life: 0, up: false, joinedMs: 0, pausedUntilMs: 0, awayUntilMs: 0, next: 0 },
      ...{
        isUrgentPlanned: false,
        isSettlePlanned: false,
        streams: new Set(),
        live: 1,
        predecessor: undefined,
      },
      starvedSinceMs: undefined,
      starvedRareSinceMs: undefined,
      refusedMs: 0,
      servedMs: 0,
    });
  }

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
    gateway.isSettlePlanned = false;
    gateway.clock = new LogClock();
    const from = this.#log.findIndex(({ atMs }) => atMs >= this.#nowMs - historyMs);
    gateway.next = from < 0 ? this.#log.length : from;
    this.#whenReadable(gateway, () => {
      this.#read(gateway, this.#log.length);
      this.#tick(gateway);
    });
  }

  /** Calls `run` once the gateway is not suspended and can reach the log, unless the gateway has stopped by then. */
  #whenReadable(gateway: Gateway, run: () => void): void {
    const { life } = gateway;
    const attempt = () => {
      if (gateway.life !== life || !gateway.up) return;
      const until = Math.max(gateway.pausedUntilMs, gateway.awayUntilMs, this.#logAwayUntilMs);
      if (until > this.#nowMs) this.#at(until + this.#dice.between(0, 50), attempt);
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
    return gateway.clock.wallMs(this.#nowMs, this.#ownMs(gateway));
  }

  /** Time by the gateway's own clock. */
  #ownMs({ offsetMs, offMs }: Gateway): number {
    return startsAtMs + this.#nowMs + offsetMs + offMs;
  }

  #tick(gateway: Gateway): void {
    const { life } = gateway;
    gateway.claimant.expire(this.#nowMs);
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
    for (const record of records) {
      gateway.clock.sent(record.process, record.n, this.#ownMs(gateway));
      this.#send(gateway, record);
    }
  }

  #renewed(gateway: Gateway): void {
    gateway.predecessor = gateway.claimant.process;
    for (const stream of gateway.streams) stream.exempt = 'orphan';
  }

  #send(gateway: Gateway, record: GaugeRecord): void {
    const dice = this.#dice;
    const areFaulty = this.#plan.faults === 'all';
    let delayMs = dice.between(0.3, 1) * this.#lagMs;
    if (this.#plan.slow && dice.chance(0.02)) delayMs += dice.between(300, 1500);
    if (areFaulty && dice.chance(0.03)) return;
    if (areFaulty && dice.chance(0.02)) delayMs += dice.between(100, 12_000);
    const read = readGauges(record);
    const append = (): void => {
      const away = Math.max(gateway.awayUntilMs, this.#logAwayUntilMs);
      if (away > this.#nowMs) {
        // Half of the appends that were under way arrive once the log is available again.
        if (dice.chance(0.5)) this.#at(away + dice.between(0, 300), append);
        return;
      }
      this.#log.push({ record, read, atMs: this.#nowMs });
      const upTo = this.#log.length;
      for (const reader of this.#gateways) {
        if (!reader.up) continue;
        const { isIdle, isAlone } = reader.claimant;
        const restMs = isIdle && !isAlone ? dice.between(0, idleRestMs) : 0;
        this.#at(this.#nowMs + dice.between(0.3, 1) * this.#lagMs + restMs, () =>
          this.#whenReadable(reader, () => this.#read(reader, upTo)),
        );
      }
    };
    this.#at(this.#nowMs + delayMs, append);
    if (areFaulty && dice.chance(0.02)) this.#at(this.#nowMs + delayMs + dice.between(0, 3000), append);
  }

  #read(gateway: Gateway, upTo: number): void {
    const { claimant } = gateway;
    const before = claimant.process;
    for (; gateway.next < upTo; gateway.next++) {
      const { read, atMs } = this.#log[gateway.next] as { read: GaugeRecord; atMs: number };
      const isNew = claimant.onRecord(read, gateway.next, this.#nowMs, startsAtMs + atMs);
      if (isNew && read.process === claimant.process)
        gateway.clock.readBack(read.process, read.n, startsAtMs + atMs);
    }
    if (claimant.process !== before) this.#renewed(gateway);
    gateway.live = claimant.live;
    this.#planSettle(gateway);
    this.#planUrgent(gateway);
  }

  /** Plans to settle the gateway's claims one turn of the event loop later. */
  #planSettle(gateway: Gateway): void {
    if (gateway.isSettlePlanned || !gateway.claimant.mayRelease) return;
    gateway.isSettlePlanned = true;
    const { life } = gateway;
    this.#at(this.#nowMs + 0.1, () => {
      if (gateway.life !== life) return;
      this.#whenRunning(gateway, () => {
        gateway.isSettlePlanned = false;
        gateway.claimant.settle(this.#nowMs);
      });
    });
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

  #limitOf(gateway: Gateway): Limit {
    const window =
      this.#plan.kind === 'concurrency'
        ? inFlightWindow
        : Math.floor(this.#wallMs(gateway) / minuteMs) * minuteMs;
    return { subject: 'acme', window, limit: gateway.limit };
  }

  #request(gateway: Gateway, weight: number, holdMs: number, ended?: Request['ended']): void {
    if (!gateway.up || !this.#isReady(gateway)) ended?.(false);
    else
      this.#whenRunning(gateway, () =>
        this.#decide(gateway, { weight, holdMs, sinceMs: this.#nowMs, ended }),
      );
  }

  /** A starting gateway is ready once it has read its own record back and no other gateway holds all room, or after 5 s. */
  #isReady({ claimant, joinedMs }: Gateway): boolean {
    return claimant.isReady(this.#nowMs) || this.#nowMs > joinedMs + 5000;
  }

  #decide(gateway: Gateway, request: Request): void {
    const { claimant } = gateway;
    const limit = this.#limitOf(gateway);
    const { weight, sinceMs } = request;
    const nowMs = this.#nowMs;
    if (claimant.admits(limit, weight, nowMs)) {
      this.#admit(gateway, limit, request);
      return;
    }
    const { life } = gateway;
    const untilMs = sinceMs + waitMs;
    const isLate = untilMs <= nowMs;
    const waiter = isLate
      ? undefined
      : claimant.wait(limit, weight, untilMs, nowMs, (again) => {
          if (gateway.life !== life) return;
          if (again) this.#at(this.#nowMs, () => gateway.life === life && this.#decide(gateway, request));
          else this.#refuse(gateway, limit, request);
        });
    if (waiter !== undefined) {
      if (sinceMs === nowMs) this.#bound.outcome.waits++;
      this.#planUrgent(gateway);
      return;
    }
    this.#refuse(gateway, limit, request);
  }

  #refuse(gateway: Gateway, limit: Limit, { weight, sinceMs, ended }: Request): void {
    this.#bound.waited(this.#nowMs - sinceMs);
    this.#bound.refuse(gateway, limit.window, weight + gateway.claimant.waitingFor(limit), this.#nowMs);
    this.#planUrgent(gateway);
    ended?.(false);
  }

  #admit(gateway: Gateway, limit: Limit, { weight, holdMs, sinceMs, ended }: Request): void {
    const { claimant } = gateway;
    const nowMs = this.#nowMs;
    this.#bound.waited(nowMs - sinceMs);
    this.#bound.served(gateway, nowMs);
    const isCutOff = claimant.isCutOff(nowMs);
    const isFirst = !isCutOff && claimant.used(limit) + weight > claimant.room(limit, nowMs);
    const exempt = isCutOff ? 'share' : isFirst ? 'first' : undefined;
    claimant.add(limit, weight, nowMs);
    if (this.#plan.kind === 'rate') this.#bound.admitRate(gateway, limit.window, exempt, nowMs);
    else this.#stream(gateway, limit, { weight, exempt }, holdMs, ended);
    this.#planUrgent(gateway);
  }

  #stream(gateway: Gateway, limit: Limit, stream: Stream, holdMs: number, ended: Request['ended']): void {
    const { life } = gateway;
    this.#bound.admitStream(gateway, stream, this.#nowMs);
    this.#at(this.#nowMs + holdMs, () =>
      this.#whenRunning(gateway, () => {
        if (gateway.life !== life || !this.#bound.endStream(gateway, stream)) return;
        gateway.claimant.remove(limit, stream.weight);
        ended?.(true);
        this.#planSettle(gateway);
        this.#planUrgent(gateway);
      }),
    );
  }

  #strike(gateway: Gateway, fault: Fault): void {
    const dice = this.#dice;
    if (!gateway.up) return;
    this.#bound.notStarved(gateway);
    if (fault === 'pause') {
      gateway.pausedUntilMs =
        this.#nowMs + dice.pick([300, 1900, 2600, 6000, 11_000]) * dice.between(0.8, 1.2);
    } else if (fault === 'away') gateway.awayUntilMs = this.#nowMs + dice.between(200, 14_000);
    else {
      if (fault === 'leave') this.#send(gateway, gateway.claimant.goodbye(this.#nowMs));
      else if (this.#plan.kind === 'rate') this.#bound.killed(gateway);
      if (fault === 'new folder') {
        gateway.predecessor = undefined;
        gateway.live = 1;
      }
      this.#stop(gateway);
      this.#at(this.#nowMs + dice.between(100, 12_000), () => this.#start(gateway));
    }
  }

  #stop(gateway: Gateway): void {
    gateway.up = false;
    gateway.life++;
    gateway.pausedUntilMs = 0;
    this.#bound.ended(gateway);
  }
}
