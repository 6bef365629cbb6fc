/** Limits of the whole fleet over two and four gateways on Kafka, which is also away for a while. */
import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { until } from '../support/until.ts';
import {
  coldBurst,
  LimitedFleet,
  minutes,
  slowStreams,
  stickyClient,
  sustained,
  withoutLog,
} from './fleet-limits.ts';

let kafka: Kafka;
let fleet: LimitedFleet;
beforeAll(async () => {
  kafka = await startKafka();
  fleet = new LimitedFleet({ logUrl: kafka.url, timeoutMs: 60_000 });
}, 120_000);
afterAll(async () => {
  await fleet?.close();
  await kafka?.stop();
});

const [four, steady, back] = [minutes('four'), minutes('steady'), minutes('back')];
const away = 'away';

test('Limits 1, Limits 2: two gateways on Kafka carry a limit once: cold burst, sticky client, slow streams, weights', async () => {
  const [burst, sticky] = [minutes('burst'), minutes('sticky')];
  await fleet.begin(2, [...burst, ...sticky, ...four, ...steady, ...back, away, 'slots']);
  await coldBurst(fleet, burst);
  await stickyClient(fleet, sticky);
  await slowStreams(fleet, 'slots');
});

test('Limits 1: four gateways on Kafka carry a limit once, have a share each while it is frozen, and a limit again after it', async () => {
  for (const name of ['gateway-2', 'gateway-3']) fleet.gateways.push(await fleet.gateway(name));
  await Promise.all(fleet.gateways.map((each) => until(() => fleet.knows(each, away))));
  await coldBurst(fleet, four);
  await sustained(fleet, steady);
  const log = { leave: () => kafka.freeze(1), come: () => kafka.thaw(1) };
  await withoutLog(fleet, { away, back }, log);
});
