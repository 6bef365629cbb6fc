/** Tests a fleet-wide limit on Kafka while one gateway's clock is wrong. */
import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { belowAndAbove, ClockFleet, offsetsMs } from './clocks.ts';

let kafka: Kafka;
let fleet: ClockFleet;
beforeAll(async () => {
  kafka = await startKafka();
  fleet = new ClockFleet({ logUrl: kafka.url, timeoutMs: 60_000 });
  await fleet.beginBoth();
}, 120_000);
afterAll(async () => {
  await fleet?.close();
  await kafka?.stop();
});

test.each(offsetsMs)(
  'Limits 1: a limit holds once and refuses nobody below it on Kafka, with and after a clock off by %i ms',
  async (offMs) => {
    fleet.setOff(offMs);
    await belowAndAbove(fleet);
    fleet.setOff(0);
    await belowAndAbove(fleet);
  },
);
