/** Draws the load and the faults of a simulated fleet's gateways from the seed. */
import type { Dice } from './agenda.ts';

export interface Plan {
  readonly seed: number;
  readonly kind: 'rate' | 'concurrency';
  /** `none` means no faults. With `stops`, gateways only stop cleanly and restart. With `all`, every kind of fault occurs. */
  readonly faults: 'none' | 'stops' | 'all';
  /** If true, a single client sends the whole limit to one gateway within 50 ms. */
  readonly sticky?: boolean;
  /** If true, each gateway's clients constantly demand more than the limit, and one gateway's event loop is slow. */
  readonly saturated?: boolean;
  /**
   * If true, log appends take up to a second and sometimes stall, event loops are busy for up to a second, and limits reach
   * 100 000.
   */
  readonly slow?: boolean;
  /**
   * `large`: 50 gateways. `changing`: the limit changes once, and gateways learn it within a second. `clocks`: gateways'
   * clocks jump by minutes, hours and days, and back.
   */
  readonly fleet?: 'large' | 'changing' | 'clocks';
}

/** Sizes of clock jumps, in ms. */
const jumps = [600_000, 3_600_000, 86_400_000];
/** Longest time until a gateway has folded a changed limit, in ms. */
const learnedMs = 1000;

/** Largest number of requests per burst on a slow log. More would only lengthen the simulation. */
const slowBurstMax = 300;

export type Fault = 'crash' | 'leave' | 'pause' | 'away' | 'new folder';

/** Length of a simulated minute, in ms. */
export const minuteMs = 8000;
export const runMs = 26_000;

/** The simulated fleet, and the actions that a plan can schedule on it. */
export interface Scene<Gateway> {
  readonly dice: Dice;
  readonly limit: number;
  readonly gateways: readonly Gateway[];
  at(atMs: number, run: () => void): void;
  request(gateway: Gateway, weight: number, holdMs: number): void;
  strike(gateway: Gateway, fault: Fault): void;
  /** Disconnects all gateways from the log for this many ms. */
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
  // Requests per second that use half, all or three times the limit.
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

/** Runs more clients per gateway than the limit allows. A refused client retries after 150 ms, a served one immediately. */
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

/** Keeps gateways' event loops busy, as large request bodies do. */
export function planBusy<Gateway>(
  { dice, gateways, at }: Scene<Gateway>,
  pause: (gateway: Gateway, ms: number) => void,
): void {
  for (const gateway of gateways)
    for (let atMs = dice.between(500, 3000); atMs < runMs; atMs += dice.between(500, 4000))
      at(atMs, () => pause(gateway, dice.between(50, 1000)));
}

/** Makes gateways' clocks jump forwards and backwards, sometimes again before they have been corrected. */
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

/** Changes the limit and returns the time of the change, in ms. */
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
