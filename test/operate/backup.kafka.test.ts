import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { deleteTopics } from '../kafka/empty-broker.ts';
import { losesEverything } from './lost-fleet.ts';

let kafka: Kafka;
beforeAll(async () => {
  kafka = await startKafka();
});
afterAll(() => kafka?.stop());

test('a fleet on Kafka is restored from a backup after its topics were deleted', () =>
  losesEverything(kafka.url, () => deleteTopics(kafka.brokers)));
