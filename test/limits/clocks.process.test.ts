/** A limit of the whole fleet while the wall clock of one gateway is set by minutes, hours and a day, and after it was set back. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/until.ts';
import { LimitedFleet } from './fleet-limits.ts';

const minuteLimit = 30;
const hourMs = 3_600_000;
let fleet: LimitedFleet;
let clockFile: string;

beforeAll(async () => {
  fleet = new LimitedFleet({});
  clockFile = join(fleet.dir, 'clock-off-ms');
  const setter = join(fleet.dir, 'set-clock.mjs');
  writeFileSync(clockFile, '0');
  // The monotonic clock stays true, as where a machine sets its wall clock.
  writeFileSync(
    setter,
    `import { readFileSync } from 'node:fs';
const now = Date.now;
Date.now = () => now() + Number(readFileSync(${JSON.stringify(clockFile)}, 'utf8'));`,
  );
  await fleet.begin(1);
  fleet.gateways.push(await fleet.gateway('set', [], { NODE_OPTIONS: `--import=${setter}` }));
});
afterAll(() => fleet?.close());

/** Of a limit of 30: 10 requests, of which none is refused, and 60 more, of which the rest of it is admitted. */
async function belowAndAbove(): Promise<void> {
  // A gateway accepts no key until it has proven its snapshot by the clock that it has now.
  for (const gateway of fleet.gateways)
    await until(async () => {
      const response = await fleet.ask(gateway, 'slots-1');
      await response.text();
      return response.status === 200;
    });
  const organisation = await fleet.freshMinute(10_000, { undisturbed: false });
  let admitted = 0;
  const exempt = await fleet.exempt(minuteLimit, async () => {
    const below = await fleet.burst(fleet.gateways, organisation, 10);
    expect(below).toMatchObject({ admitted: 10, limited: 0, other: [] });
    const above = await fleet.burst(fleet.gateways, organisation, 2 * minuteLimit);
    expect(above.other).toEqual([]);
    admitted = below.admitted + above.admitted;
  });
  expect(admitted).toBeGreaterThanOrEqual(minuteLimit);
  expect(admitted).toBeLessThanOrEqual(minuteLimit + exempt);
}

test.each([-600_000, 600_000, -hourMs, hourMs, -24 * hourMs, 24 * hourMs])(
  'Limits 1: a limit holds once, and refuses nobody below it, while the clock of one gateway is off by %i ms, and after',
  async (offMs) => {
    writeFileSync(clockFile, String(offMs));
    await belowAndAbove();
    writeFileSync(clockFile, '0');
    await belowAndAbove();
  },
);
