/** A limit of the whole fleet while the clock of one gateway is wrong, on the embedded log. */
import { afterAll, beforeAll, test } from 'vitest';

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
    fleet.setOff(0);
    await belowAndAbove(fleet);
  },
);
