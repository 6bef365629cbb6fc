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
  sustained,
  withoutLog,
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
  const [burst, killed, steady] = [minutes('burst'), minutes('killed'), minutes('steady')];
  await fleet.begin(4, [...burst, ...killed, ...steady, 'slots']);
  await coldBurst(fleet, burst);
  const early = await sustained(fleet, steady);
  console.log(JSON.stringify({ sustained: 3 * minuteLimit, refusedBeforeTheLimit: early }));
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
  const log = { leave: () => fleet.moveGauges(true), come: () => fleet.moveGauges(false) };
  await withoutLog(fleet, { away: away[0] ?? '', back }, log);
});
