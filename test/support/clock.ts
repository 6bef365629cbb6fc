/**
 * Moves this process's clock forward, for tests of minutes, expiry and age. Moves the wall clock and the monotonic clock
 * together, because a gateway would detect a change to the wall clock alone. Both clocks keep running. Timers do not move,
 * and `performance.now` moves only in `sleepMs`. Take the clock before starting a fleet, because some modules keep a
 * reference to `Date.now`.
 */
import { vi } from 'vitest';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { TestFleet } from './fleet.ts';

export interface TestClock {
  /** The shifted time, in ms since 1970. */
  now(): number;
  advanceMs(ms: number): void;
  /** Simulates a suspended machine: also moves `performance.now`, so proofs of freshness are old by every clock. */
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

/**
 * If less than 15 s of the organisation's current minute remain, skips to the next one, so that a test stays within one
 * minute.
 */
export function roomInMinute(clock: TestClock, organisation: string): void {
  const leftMs = windowStartMs(organisation, clock.now()) + windowMs - clock.now();
  if (leftMs < 15_000) clock.advanceMs(leftMs);
}

/**
 * Waits until every gateway is ready. After a jump of the clock, each gateway must prove its freshness before it accepts
 * keys.
 */
export async function untilReady(fleet: TestFleet): Promise<void> {
  for (const { metrics } of fleet.gateways)
    await vi.waitUntil(async () => (await fetch(new URL('/readyz', metrics))).ok, {
      timeout: 15_000,
      interval: 50,
    });
}
