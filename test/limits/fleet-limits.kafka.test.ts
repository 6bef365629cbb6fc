/** Limits of the whole fleet over two gateways on Kafka. */
import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { coldBurst, LimitedFleet, minutes, slowStreams, stickyClient } from './fleet-limits.ts';

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

test('Limits 1, Limits 2: two gateways on Kafka carry a limit once: cold burst, sticky client, slow streams, weights', async () => {
  const [burst, sticky] = [minutes('burst'), minutes('sticky')];
  await fleet.begin(2, [...burst, ...sticky, 'slots']);
  await coldBurst(fleet, burst);
  await stickyClient(fleet, sticky);
  await slowStreams(fleet, 'slots');
});
