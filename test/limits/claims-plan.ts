/** What happens to the gateways of a simulated fleet: their load and their faults, all drawn from the seed. */
import type { Dice } from './agenda.ts';

export interface Plan {
  readonly seed: number;
  readonly kind: 'rate' | 'concurrency';
  /** `stops`: gateways stop cleanly and start again, and nothing else happens. */
  readonly faults: 'none' | 'stops' | 'all';
  /** One client that stays on one gateway and sends the whole limit within 50 ms, without faults. */
  readonly sticky?: boolean;
  /** Clients of each gateway that ask for more than the limit all the time; the loop of one gateway is slow. */
  readonly saturated?: boolean;
  /** The log takes up to a second, and stalls for longer; the gateways' loops are busy for up to a second; limits up to 100 000. */
  readonly slow?: boolean;
  /**
   * `large`: 50 gateways. `changing`: the limit changes once, and
   * gateways learn of it within a second. `clocks`: the clocks of gateways jump by minutes, hours and days, and back.
   */
  readonly fleet?: 'large' | 'changing' | 'clocks';
}

/** How far clocks jump, ms. */
const jumps = [600_000, 3_600_000, 86_400_000];
/** A gateway has folded another limit within so long. */
const learnedMs = 1000;

/** Requests of a burst on a slow log: more would only take longer to simulate. */
const slowBurstMax = 300;

export type Fault = 'crash' | 'leave' | 'pause' | 'away' | 'new folder';

/** The length of a simulated minute. */
export const minuteMs = 8000;
export const runMs = 26_000;

/** What a plan may do. */
export interface Scene<Gateway> {
  readonly dice: Dice;
  readonly limit: number;
  readonly gateways: readonly Gateway[];
  at(atMs: number, run: () => void): void;
  request(gateway: Gateway, weight: number, holdMs: number): void;
  strike(gateway: Gateway, fault: Fault): void;
  /** No gateway reaches the log for so long. */
  cutLog(ms: number): void;
}

export function planSticky<Gateway>({ dice, limit, gateways, at, request }: Scene<Gateway>): void {
  const gateway = dice.pick(gateways);
  const startMs = 2 * minuteMs + dice.between(500, 3000);
  for (let i = 0; i < limit; i++) at(startMs + dice.between(0, 50), () => request(gateway, 1, 0));
}

export function planLoad<Gateway>(kind: Plan['kind'], scene: Scene<Gateway>): void {
  const { dice, limit, gateways, at, request } = scene;
  const heavy = dice.chance(0.3);
  const holdMs = dice.pick([100, 1000, 4000]);
  const send = (gateway: Gateway) => {
    const weight = kind === 'concurrency' && heavy ? dice.pick([1, 1, 2, 4]) : 1;
    request(gateway, weight, holdMs * dice.between(0.2, 2));
  };
  const sticky = dice.pick(gateways);
  const style = dice.pick(['sustained', 'bursts', 'sticky', 'mixed'] as const);
  // Requests a second that make three times the limit.
  const wanted = (dice.pick([0.5, 1, 3]) * limit) / (kind === 'rate' ? minuteMs / 1000 : holdMs / 1000);
  const perSecond = Math.min(wanted, 200);
  const target = () => (style === 'sticky' ? sticky : dice.pick(gateways));
  if (style !== 'bursts') {
    const gapMs = 1000 / perSecond;
    for (let atMs = 1500; atMs < runMs; atMs += gapMs * dice.between(0.2, 1.8)) {
      const gateway = target();
      at(atMs, () => send(gateway));
    }
  }
  if (style === 'bursts' || style === 'mixed') {
    for (let atMs = dice.between(1500, 4000); atMs < runMs; atMs += dice.between(500, 9000)) {
      const size = Math.min(Math.ceil(limit * dice.between(0.3, 3)), slowBurstMax);
      for (let i = 0; i < size; i++) {
        const gateway = target();
        at(atMs + dice.between(0, 60), () => send(gateway));
      }
    }
  }
}

/** More clients on each gateway than the limit has room for. One that is refused asks again 150 ms later, one that is served at once. */
export function planSaturation<Gateway>(
  { dice, limit, gateways, at }: Scene<Gateway>,
  ask: (gateway: Gateway, holdMs: number, ended: (isServed: boolean) => void) => void,
  pause: (gateway: Gateway, ms: number) => void,
): void {
  const holdMs = dice.pick([400, 1000]);
  for (const gateway of gateways)
    for (let client = 0; client < 1.5 * limit; client++) {
      const again = (): void => ask(gateway, holdMs, (isServed) => at(isServed ? 0 : 150, again));
      at(1500 + dice.between(0, 150), again);
    }
  const [slow] = gateways;
  if (slow === undefined) return;
  const busyMs = dice.pick([0, 20, 60, 150, 400]);
  for (let atMs = 0; atMs < runMs; atMs += dice.between(5, 200) + busyMs)
    at(atMs, () => pause(slow, busyMs * dice.between(0.5, 1)));
}

/** Loops that are busy, as with large bodies. */
export function planBusy<Gateway>(
  { dice, gateways, at }: Scene<Gateway>,
  pause: (gateway: Gateway, ms: number) => void,
): void {
  for (const gateway of gateways)
    for (let atMs = dice.between(500, 3000); atMs < runMs; atMs += dice.between(500, 4000))
      at(atMs, () => pause(gateway, dice.between(50, 1000)));
}

/** Clocks that jump, forwards and back, and again before they were right. */
export function planClocks<Gateway>(
  { dice, gateways, at }: Scene<Gateway>,
  setClock: (gateway: Gateway, offMs: number) => void,
): void {
  for (const gateway of gateways) {
    if (dice.chance(0.5)) continue;
    for (let atMs = dice.between(0, 8000); atMs < runMs; atMs += dice.between(100, 8000)) {
      const offMs = dice.chance(0.5) ? 0 : dice.pick(jumps) * dice.pick([-1, 1]);
      at(atMs, () => setClock(gateway, offMs));
    }
  }
}

/** The limit changes; returns when, ms. */
export function planChange<Gateway>(
  { dice, gateways, at }: Scene<Gateway>,
  learn: (gateway: Gateway) => void,
): number {
  const changedMs = dice.between(3000, runMs - 8000);
  for (const gateway of gateways) at(changedMs + dice.between(0, learnedMs), () => learn(gateway));
  return changedMs;
}

export function planFaults<Gateway>(faults: Plan['faults'], scene: Scene<Gateway>): void {
  if (faults === 'none') return;
  const { dice, gateways, at, strike, cutLog } = scene;
  const all = ['crash', 'crash', 'leave', 'pause', 'pause', 'away', 'new folder'] as const;
  for (const gateway of gateways) {
    const count = dice.below(4);
    for (let i = 0; i < count; i++) {
      const fault = dice.pick(faults === 'stops' ? (['leave'] as const) : all);
      at(dice.between(1000, runMs), () => strike(gateway, fault));
    }
  }
  if (faults === 'all' && dice.chance(0.3))
    at(dice.between(2000, runMs), () => cutLog(dice.between(200, 14_000)));
}
