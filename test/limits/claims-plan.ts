/** What happens to the gateways of a simulated fleet: their load and their faults, all drawn from the seed. */
import type { Dice } from './agenda.ts';

export interface Plan {
  readonly seed: number;
  readonly kind: 'rate' | 'concurrency';
  /** `stops`: gateways stop cleanly and start again, and nothing else happens. */
  readonly faults: 'none' | 'stops' | 'all';
  /** One client that stays on one gateway and sends the whole limit within 50 ms, without faults. */
  readonly sticky?: boolean;
}

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
  const perSecond = (dice.pick([0.5, 1, 3]) * limit) / (kind === 'rate' ? minuteMs / 1000 : holdMs / 1000);
  const target = () => (style === 'sticky' ? sticky : dice.pick(gateways));
  if (style !== 'bursts') {
    const gapMs = 1000 / Math.min(perSecond, 200);
    for (let atMs = 1500; atMs < runMs; atMs += gapMs * dice.between(0.2, 1.8)) {
      const gateway = target();
      at(atMs, () => send(gateway));
    }
  }
  if (style === 'bursts' || style === 'mixed') {
    for (let atMs = dice.between(1500, 4000); atMs < runMs; atMs += dice.between(500, 9000)) {
      const size = Math.ceil(limit * dice.between(0.3, 3));
      for (let i = 0; i < size; i++) {
        const gateway = target();
        at(atMs + dice.between(0, 60), () => send(gateway));
      }
    }
  }
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
