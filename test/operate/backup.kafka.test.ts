import { type Admin, Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { afterAll, beforeAll, inject, test } from 'vitest';
import { until } from '../support/until.ts';
import { losesEverything } from './lost-fleet.ts';

const kafka = inject('kafka');
let admin: Admin;
beforeAll(async () => {
  admin = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  await deleteTopics();
});
afterAll(async () => {
  await deleteTopics();
  await admin.disconnect();
});

async function deleteTopics(): Promise<void> {
  const ofService = async () => (await admin.listTopics()).filter((topic) => topic.startsWith('headgate.'));
  const topics = await ofService();
  if (topics.length > 0) await admin.deleteTopics({ topics });
  await until(async () => (await ofService()).length === 0, 60_000);
}

test('a fleet on Kafka comes back from a backup after its topics were deleted', () =>
  losesEverything(kafka.url, deleteTopics));
