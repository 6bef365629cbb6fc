/** Deletes a broker's topics between two fleets, because the topics of the service have fixed names. */
import { Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { until } from '../support/until.ts';

/** Uses a client of its own, because a client that has seen a topic disappear loses track of its brokers. */
export async function deleteTopics(brokers: readonly string[], prefix = 'headgate.'): Promise<void> {
  const admin = new KafkajsClient({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    const ofService = async () => (await admin.listTopics()).filter((topic) => topic.startsWith(prefix));
    const topics = await ofService();
    if (topics.length > 0) await admin.deleteTopics({ topics });
    await until(async () => (await ofService()).length === 0, 60_000);
  } finally {
    await admin.disconnect();
  }
}
