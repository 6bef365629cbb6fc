/**
 * Tests fleet-wide limits over two gateways on one embedded log, with killed gateways and an unreachable log. The nightly run
 * repeats the tests with four gateways.
 */
import { afterAll, beforeAll, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { everyCase, LimitedFleet } from './fleet-limits.ts';

let fleet: LimitedFleet;
beforeAll(async () => {
  fleet = new LimitedFleet({});
  await fleet.begin(2);
});
afterAll(() => fleet?.close());

const log = { leave: () => fleet.moveGauges(true), come: () => fleet.moveGauges(false) };

test.each([2, 4].slice(0, runs({ fast: 1, full: 1 })))(
  'Limits 1, Limits 2: %i gateways apply a limit once, in bursts, streams, kills and a log outage',
  async (gateways) => {
    await fleet.growTo(gateways);
    await everyCase(fleet, log);
  },
);
