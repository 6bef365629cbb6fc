/**
 * Sends cold bursts below every limit to ten gateways on a slow Kafka. The other cases hardly depend on Kafka, so they run
 * only in the nightly run.
 */
import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { burstCases, nobodyRefused, WideFleet } from './bursts.ts';

let kafka: Kafka;
let fleet: WideFleet;
beforeAll(async () => {
  kafka = await startKafka();
  fleet = new WideFleet({ logUrl: kafka.url, timeoutMs: 60_000 });
  await fleet.begin();
}, 120_000);
afterAll(async () => {
  await fleet?.close();
  await kafka?.stop();
});

/** Repeatedly freezes the broker for a second, until stopped. */
function slowLog(): { stop(): void } {
  let isFrozen = false;
  const turn = (): void => {
    if (isFrozen) kafka.thaw(1);
    else kafka.freeze(1);
    isFrozen = !isFrozen;
    timer = setTimeout(turn, isFrozen ? 1000 : 100);
  };
  let timer = setTimeout(turn, 0);
  return {
    stop: () => {
      clearTimeout(timer);
      if (isFrozen) kafka.thaw(1);
    },
  };
}

test.each(burstCases(slowLog, 1))(
  'Limits 1, Limits 2: a cold burst far below the limits over $gateways gateways on Kafka is never refused: $name',
  async ({ gateways, disturb }) => {
    await fleet.growTo(gateways);
    await nobodyRefused(fleet, disturb);
  },
);
