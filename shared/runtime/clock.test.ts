import { expect, test } from 'vitest';
import { ReadTime } from './clock.ts';

const dayMs = 86_400_000;
const start = Date.UTC(2026, 0, 1);

test.each([-40 * dayMs, 40 * dayMs])(
  'neither a log that leaps by %i ms nor a machine’s wrong clock changes the log’s time, even at a start',
  (offMs) => {
    let [passedMs, ownMs] = [0, 0];
    const reader = () => {
      const time = new ReadTime(
        () => start + passedMs + ownMs,
        () => passedMs,
      );
      const read = (logMs: number, leapMs = 0) => {
        passedMs += 1000;
        const at = start + passedMs + logMs;
        time.read(at, at - leapMs);
        return time.now() - start - passedMs;
      };
      return { time, read };
    };
    const running = reader();
    expect(running.read(0)).toBe(0);
    expect(running.read(offMs)).toBe(0);
    expect(reader().read(offMs, offMs)).toBe(0);
    const misled = reader();
    expect([misled.read(offMs), misled.read(offMs, offMs)]).toEqual([offMs, 0]);
    ownMs = offMs;
    expect(running.time.now() - start - passedMs).toBe(0);
    expect(running.read(0)).toBe(0);
    const started = reader();
    expect([started.read(0), started.read(0)]).toEqual([0, 0]);
    // The records that `late` reads were written before it started.
    const late = reader();
    expect([late.read(-dayMs), late.read(-3000), late.read(0)]).toEqual([-dayMs, -3000, 0]);
    expect(running.read(offMs)).toBe(offMs);
  },
);
