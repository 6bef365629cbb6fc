/**
 * Moves the clock of this process forward, for tests of minutes, expiry and age: the wall clock, and the monotonic one of the
 * machine, because a gateway would notice a wall clock that was set. It continues to run meanwhile, and timers are
 * left alone, as `performance.now` is unless it sleeps. Take it before a fleet is started: some hold on to `Date.now`.
 */
import { vi } from 'vitest';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { TestFleet } from './fleet.ts';

export interface TestClock {
  /** The shifted time, ms since 1970. */
  now(): number;
  advanceMs(ms: number): void;
  /** As where the machine was suspended: `performance.now` moves too, so that what was proven before is old by every clock. */
  sleepMs(ms: number): void;
  restore(): void;
}

export function takeClock(): TestClock {
  const real = Date.now.bind(Date);
  let skewMs = 0;
  let sleptMs = 0;
  const running = performance.now.bind(performance);
  const monotonic = process.hrtime.bigint.bind(process.hrtime);
  const spies = [
    vi.spyOn(performance, 'now').mockImplementation(() => running() + sleptMs),
    vi.spyOn(Date, 'now').mockImplementation(() => real() + skewMs),
    vi
      .spyOn(process.hrtime, 'bigint')
      .mockImplementation(() => monotonic() + BigInt(Math.round(skewMs)) * 1_000_000n),
  ];
  return {
    now: () => real() + skewMs,
    advanceMs: (ms) => {
      skewMs += ms;
    },
    sleepMs: (ms) => {
      skewMs += ms;
      sleptMs += ms;
    },
    restore: () => {
      for (const spy of spies) spy.mockRestore();
    },
  };
}

/** Moves on to the organisation's next minute where little is left of the present one, so that a test stays within one. */
export function roomInMinute(clock: TestClock, organisation: string): void {
  const leftMs = windowStartMs(organisation, clock.now()) + windowMs - clock.now();
  if (leftMs < 15_000) clock.advanceMs(leftMs);
}

/** After a leap of the clock a gateway accepts keys again once it has proven its freshness again; waits for all of them. */
export async function untilReady(fleet: TestFleet): Promise<void> {
  for (const { metrics } of fleet.gateways)
    await vi.waitUntil(async () => (await fetch(new URL('/readyz', metrics))).ok, {
      timeout: 15_000,
      interval: 50,
    });
}
