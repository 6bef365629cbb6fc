import { type Admin, Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { until } from '../support/until.ts';
import { losesEverything } from './lost-fleet.ts';

let kafka: Kafka;
let admin: Admin;
beforeAll(async () => {
  kafka = await startKafka();
  admin = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
});
afterAll(async () => {
  await admin?.disconnect();
  await kafka?.stop();
});

async function deleteTopics(): Promise<void> {
  const ofService = async () => (await admin.listTopics()).filter((topic) => topic.startsWith('headgate.'));
  const topics = await ofService();
  if (topics.length > 0) await admin.deleteTopics({ topics });
  await until(async () => (await ofService()).length === 0, 60_000);
}

test('a fleet on Kafka comes back from a backup after its topics were deleted', () =>
  losesEverything(kafka.url, deleteTopics));
