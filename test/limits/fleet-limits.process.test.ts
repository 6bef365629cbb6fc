/** Limits of the whole fleet over two and four gateways on one embedded log, with gateways killed and the log away. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { until } from '../support/until.ts';
import {
  coldBurst,
  LimitedFleet,
  minuteLimit,
  minutes,
  openStreams,
  slots,
  slowStreams,
  stickyClient,
} from './fleet-limits.ts';

let fleet: LimitedFleet;
beforeEach(() => {
  fleet = new LimitedFleet({});
});
afterEach(() => fleet.close());

test('Limits 1, Limits 2: two gateways carry a limit once: cold burst, sticky client, slow streams, weights', async () => {
  const [burst, sticky] = [minutes('burst'), minutes('sticky')];
  await fleet.begin(2, [...burst, ...sticky, 'slots']);
  await coldBurst(fleet, burst);
  await stickyClient(fleet, sticky);
  await slowStreams(fleet, 'slots');
});

test('Limits 1, Limits 2: four gateways carry a limit once, also while one is killed and comes back', async () => {
  const [burst, killed] = [minutes('burst'), minutes('killed')];
  await fleet.begin(4, [...burst, ...killed, 'slots']);
  await coldBurst(fleet, burst);
  const [first] = fleet.gateways;
  if (first === undefined) throw new Error('no gateway');
  const streams = openStreams(fleet, 'slots');
  for (let count = 0; count < slots; count++) expect(await streams.begin(0)).toBe(200);
  await first.end('SIGKILL');
  await until(async () => (await fleet.seen()).inFlight === 0);
  // The places of the one that was killed are free once it is back, or was silent for ten seconds.
  fleet.gateways[0] = await fleet.gateway('gateway-0');
  await until(async () => (await streams.begin(1)) === 200, 5000);
  await streams.leave();
  await coldBurst(fleet, killed);
});

test('Limits 1: without the log each gateway has its share, and the limit holds again once it is back', async () => {
  const [away, back] = [minutes('away'), minutes('back')];
  await fleet.begin(2, [...away, ...back]);
  fleet.moveGauges(true);
  const ages = () =>
    Promise.all(fleet.gateways.map((each) => fleet.metric(each, 'headgate_limit_feed_age_seconds')));
  await until(async () => (await ages()).every((age) => age > 2.1));
  for (const gateway of fleet.gateways) {
    const { admitted, other } = await fleet.burst([gateway], away[0] ?? '', minuteLimit);
    expect(other).toEqual([]);
    // A minute may end in between, so that the share counts again.
    expect(admitted % (minuteLimit / 2)).toBe(0);
    expect(admitted).toBeLessThanOrEqual(minuteLimit);
    expect(admitted).toBeGreaterThan(0);
  }
  fleet.moveGauges(false);
  await until(async () => (await ages()).every((age) => age < 2));
  await coldBurst(fleet, back);
});
