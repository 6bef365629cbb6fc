/** Tests the topics for limits on a real broker: their contract, and the settings with which they are created or refused. */
import { type Admin, Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { countersTopic, gaugesTopic } from '../../schemas/records/limits.ts';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { type LimitBatch, openLimitTopic } from '../../shared/log/limit-topic.ts';
import { limitTopicContract } from '../contract/limit-topic.ts';
import { until } from '../support/until.ts';
import { type Kafka, startKafka } from './broker.ts';

const tokens = ['gateway-token-of-the-tests'] as const;
let kafka: Kafka;
let admin: Admin;
let topics = 0;
beforeAll(async () => {
  kafka = await startKafka();
  admin = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
});
afterAll(async () => {
  await admin?.disconnect();
  await kafka?.stop();
});

async function remove(topic: string): Promise<void> {
  const isThere = async () => (await admin.listTopics()).includes(topic);
  if (await isThere()) await admin.deleteTopics({ topics: [topic] });
  await until(async () => !(await isThere()));
}

async function settingsOf(topic: string): Promise<Map<string, string>> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: 2, name: topic }],
  });
  const entries = resources[0]?.configEntries ?? [];
  return new Map(entries.map(({ configName, configValue }) => [configName, configValue]));
}

limitTopicContract('the Kafka log', async () => {
  const topic = `limits-${topics++}`;
  const open = () =>
    openKafkaLog(kafka.brokers, {}, { topic, partition: 0, keepSeconds: 3600, allowTrimmed: true });
  return {
    open,
    replace: async () => {
      await remove(topic);
      const configEntries = [{ name: 'retention.ms', value: String(3600 * 1000) }];
      await admin.createTopics({ topics: [{ topic, configEntries }], waitForLeaders: false });
      // Waits by polling, because the client's own wait fails if the broker does not know the new topic yet.
      const hasLeader = () => admin.fetchTopicOffsets(topic).then(Boolean, () => false);
      await until(hasLeader);
    },
    dispose: async () => undefined,
  };
});

test.each([
  [gaugesTopic, 3600],
  [countersTopic, 24 * 3600],
] as const)('%s is created with short segments and deletes old records', async (topic, keepSeconds) => {
  const client = openLimitTopic(kafka.url, { topic, tokens });
  await client.append(Buffer.from('first'));
  const settings = await settingsOf(topic);
  expect(settings.get('cleanup.policy')).toBe('delete');
  expect(settings.get('segment.ms')).toBe('600000');
  expect(settings.get('retention.ms')).toBe(String(keepSeconds * 1000));
  expect(settings.get('message.timestamp.type')).toBe('LogAppendTime');
  await client.close();
});

test('a topic whose contents are published again is recreated if it is deleted while in use', async () => {
  const client = openLimitTopic(kafka.url, { topic: gaugesTopic, tokens });
  const read: string[] = [];
  const onBatch = ({ records }: LimitBatch) => void read.push(...records.map(({ value }) => String(value)));
  client.follower({ from: 0, onBatch, onFault: (error) => expect.unreachable(error.message) }).start();
  const append = (text: string) =>
    client.append(Buffer.from(text)).then(
      () => true,
      () => false,
    );
  await until(() => append('before'));
  await until(() => read.includes('before'));
  await admin.deleteTopics({ topics: [gaugesTopic] });
  await until(() => append('after'), 60_000);
  await until(() => read.includes('after'), 60_000);
  expect((await settingsOf(gaugesTopic)).get('segment.ms')).toBe('600000');
  await client.close();
}, 120_000);

test('a topic with other settings is refused by name, with the next step', async () => {
  await remove(countersTopic);
  const entries = { 'cleanup.policy': 'compact', 'segment.ms': '86400000', 'retention.ms': '86400000' };
  const configEntries = Object.entries(entries).map(([name, value]) => ({ name, value }));
  await admin.createTopics({ topics: [{ topic: countersTopic, configEntries }], waitForLeaders: true });
  const client = openLimitTopic(kafka.url, { topic: countersTopic, tokens });
  await expect(client.append(Buffer.from('x'))).rejects.toThrow(
    /topic headgate\.counters is set to cleanup\.policy=compact, .*segment\.ms=86400000.*; fix it: kafka-configs\.sh .*segment\.ms=600000/,
  );
  await client.close();
});
