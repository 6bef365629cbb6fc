/** A limit of the whole fleet while the clock of one gateway is wrong, on the embedded log. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { belowAndAbove, ClockFleet, offsetsMs } from './clocks.ts';

let fleet: ClockFleet;
beforeAll(async () => {
  fleet = new ClockFleet({});
  await fleet.beginBoth();
});
afterAll(() => fleet?.close());

test.each(offsetsMs)(
  'Limits 1: a limit holds once, and refuses nobody below it, while the clock of one gateway is off by %i ms, and after',
  async (offMs) => {
    fleet.setOff(offMs);
    await belowAndAbove(fleet);
    const seconds = Math.abs(offMs) / 1000;
    const off = new RegExp(`^${seconds} s ${offMs < 0 ? 'behind' : 'ahead of'} that of the log`);
    expect(await fleet.clockSays()).toMatch(off);
    fleet.setOff(0);
    await belowAndAbove(fleet);
    expect(await fleet.clockSays()).toBe('agrees with that of the log');
  },
);
