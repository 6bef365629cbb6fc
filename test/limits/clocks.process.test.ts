/** A limit of the whole fleet while the clock of one gateway is wrong, on the embedded log. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/until.ts';
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

test.each([-40, 40])(
  'Limits 4: what a gateway serves counts in the period of the log, and at its time, while its clock is off by %i days',
  async (offDays) => {
    const before = await fleet.used('slots-0');
    fleet.setOff(offDays * 24 * 3_600_000);
    const [, set] = fleet.gateways;
    if (set === undefined) throw new Error('the gateway is missing');
    const askedMs = Date.now();
    const response = await fleet.ask(set, 'slots-0');
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    await until(async () => {
      const used = await fleet.used('slots-0');
      return used.requests > before.requests || used.periods.length > 1;
    });
    fleet.setOff(0);
    const { requests, period, periods, lastMs } = await fleet.used('slots-0');
    expect([requests, periods]).toEqual([before.requests + 1, [period]]);
    expect(Math.abs(lastMs - askedMs)).toBeLessThan(24 * 3_600_000);
  },
);
