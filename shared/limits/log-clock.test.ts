import { expect, test } from 'vitest';
import { LogClock } from './log-clock.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2026, 0, 1);

test.each([-24 * hourMs, -hourMs, -600_000, 600_000, hourMs, 24 * hourMs])(
  'a clock that is set off by %i ms labels minutes as before at once, and as it is again once it is right',
  (offMs) => {
    const clock = new LogClock();
    let off = 0;
    const wall = (nowMs: number) => clock.wallMs(nowMs, start + nowMs + off) - start - nowMs;
    const publish = (n: number, nowMs: number) => {
      wall(nowMs);
      clock.sent('one', n, start + nowMs + off);
      clock.readBack('one', n, start + nowMs + 30);
    };
    expect(wall(0)).toBe(0);
    publish(1, 0);
    clock.sent('one', 2, start);
    off = offMs;
    expect(wall(1000)).toBe(0);
    // It was sent before the clock was set.
    clock.readBack('one', 2, start + 1000);
    expect(wall(1000)).toBe(0);
    publish(3, 2000);
    expect(Math.abs(wall(2000))).toBeLessThanOrEqual(30);
    off = 0;
    expect(Math.abs(wall(3000))).toBeLessThanOrEqual(30);
    publish(4, 3000);
    expect(wall(3000)).toBe(0);
  },
);

test('a process that starts with a wrong clock has that of the log with its first record, and a small difference is its own', () => {
  const clock = new LogClock();
  expect(clock.aheadMs(0, start - hourMs)).toBe(0);
  clock.sent('one', 1, start - hourMs);
  clock.readBack('one', 1, start);
  expect(clock.aheadMs(10, start - hourMs + 10)).toBe(hourMs);
  const near = new LogClock();
  near.sent('one', 1, start - 20_000);
  near.readBack('one', 1, start);
  expect(near.aheadMs(10, start)).toBe(0);
});

const farMs = 40 * 24 * hourMs;

test.each([-farMs, farMs])(
  'periods stay where they are while the log of the fleet leaps by %i ms, also for a process that starts meanwhile',
  (leapMs) => {
    const running = new LogClock();
    const publish = (clock: LogClock, n: number, { logMs = 0, ownMs = 0 }) => {
      clock.aheadMs(n, start + n + ownMs);
      clock.sent('one', n, start + n + ownMs);
      clock.readBack('one', n, start + n + logMs);
      return clock.aheadMs(n, start + n + ownMs) - clock.leapMs + ownMs;
    };
    expect(publish(running, 1, {})).toBe(0);
    expect(publish(running, 2, { logMs: leapMs })).toBe(0);
    expect(running.leapMs).toBe(leapMs);
    const started = new LogClock();
    started.readOther(running.leapMs);
    expect(publish(started, 1, { logMs: leapMs })).toBe(0);
    expect(publish(started, 2, {})).toBe(0);
    expect([publish(running, 3, {}), running.leapMs]).toEqual([0, 0]);
    // The own clock is wrong instead, from the start or later.
    expect(publish(running, 4, { ownMs: leapMs })).toBe(0);
    const wrong = new LogClock();
    wrong.readOther(running.leapMs);
    expect(publish(wrong, 1, { ownMs: leapMs })).toBe(0);
    expect(publish(wrong, 2, { ownMs: leapMs })).toBe(0);
    expect(publish(wrong, 3, {})).toBe(0);
    // All clocks move together: time has passed.
    expect(publish(running, 5, { ownMs: leapMs, logMs: leapMs })).toBe(leapMs);
  },
);
