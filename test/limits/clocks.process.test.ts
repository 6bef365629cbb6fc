/** Tests a fleet-wide limit on the embedded log while one gateway's clock is wrong. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/until.ts';
import { belowAndAbove, ClockFleet, offsetsMs } from './clocks.ts';

const dayMs = 24 * 3_600_000;
let fleet: ClockFleet;
beforeAll(async () => {
  fleet = new ClockFleet({});
  await fleet.beginBoth();
});
afterAll(() => fleet?.close());

test.each(offsetsMs)(
  'Limits 1: a limit holds once and refuses nobody below it, with and after a clock off by %i ms',
  async (offMs) => {
    fleet.setOff(offMs);
    await belowAndAbove(fleet);
    const seconds = Math.abs(offMs) / 1000;
    const off = new RegExp(`^${seconds} s ${offMs < 0 ? 'behind' : 'ahead of'} the clock of the log`);
    expect(await fleet.clockSays()).toMatch(off);
    fleet.setOff(0);
    await belowAndAbove(fleet);
    expect(await fleet.clockSays()).toBe('agrees with the clock of the log');
  },
);

test.each([-40, 40])(
  'Limits 4: a gateway’s usage counts in the log’s period and time while its clock is off by %i days',
  async (offDays) => {
    const before = await fleet.used('slots-0');
    fleet.setOff(offDays * dayMs);
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
    expect(Math.abs(lastMs - askedMs)).toBeLessThan(dayMs);
  },
);

test.each([-40, 40])(
  'Limits 4: gateways’ usage counts in its own period while the log’s time is off by %i days',
  async (offDays) => {
    const before = await fleet.used('slots-0');
    fleet.leapLog(offDays * dayMs);
    await until(async () => (await fleet.clockSays())?.includes('it has jumped') === true);
    for (const gateway of fleet.gateways) {
      const response = await fleet.ask(gateway, 'slots-0');
      expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    }
    await until(async () => {
      const used = await fleet.used('slots-0');
      return used.requests > before.requests + 1 || used.periods.length > 1;
    });
    fleet.leapLog(-offDays * dayMs);
    const { requests, period, periods } = await fleet.used('slots-0');
    expect([requests, periods]).toEqual([before.requests + 2, [period]]);
    await until(async () => (await fleet.clockSays()) === 'agrees with the clock of the log');
  },
);

test('Limits 4: a control plane whose clock is off by days shows and adjusts the period that gateways use', async () => {
  const admin = await fleet.setPlane();
  for (const offDays of [-40, 40]) {
    const { period, adjustedTokens } = await admin.call('GET', '/usage?organisation=slots-0');
    const { refillsAt } = (await admin.call('GET', '/organisations/slots-0/limits')).tokens;
    fleet.setOff(offDays * dayMs, 'set-plane');
    expect(await admin.call('GET', '/usage?organisation=slots-0')).toMatchObject({ period });
    expect((await admin.call('GET', '/organisations/slots-0/limits')).tokens).toMatchObject({ refillsAt });
    const adjusted = await admin.call('POST', '/organisations/slots-0/usage-adjustments?why=test', {
      tokens: 5,
    });
    expect(adjusted).toMatchObject({ period, adjustedTokens: adjustedTokens + 5 });
    fleet.setOff(0, 'set-plane');
  }
});
