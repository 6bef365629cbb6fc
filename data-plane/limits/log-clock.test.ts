import { expect, test } from 'vitest';
import { LogClock } from './log-clock.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2026, 0, 1);

test.each([-24 * hourMs, -hourMs, -600_000, 600_000, hourMs, 24 * hourMs])(
  'a clock set off by %i ms does not change minute labels, nor does correcting it',
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
    // This record had been sent before the clock was set.
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

test('a process with a wrong clock follows the log’s after its first record, but keeps small differences', () => {
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
