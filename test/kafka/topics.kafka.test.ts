/**
 * Tests that topics are created with the right settings. A topic with wrong settings is refused, with a command that fixes
 * it. A topic that was deleted and recreated, or lost its first records, must be noticed.
 */
import { type Admin, Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ControlLog, LogReplaced, LogTruncated } from '../../shared/log/core/control-log.ts';
import { TopicMisconfigured } from '../../shared/log/kafka/errors.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { promptly, readRecords } from '../contract/control-log.ts';
import { type Kafka, startKafka } from './broker.ts';

let kafka: Kafka;
let admin: Admin;
const opened: ControlLog[] = [];
beforeAll(async () => {
  kafka = await startKafka();
  const client = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING });
  admin = client.admin();
  await admin.connect();
});
afterAll(async () => {
  await admin?.disconnect();
  await kafka?.stop();
});
afterEach(async () => {
  for (const log of opened.splice(0)) await log.close();
});

async function open(topic: string, options: Parameters<typeof openLog>[2] & { partition?: number } = {}) {
  const { partition = 0, ...rest } = options;
  const log = await openLog(kafka.url, { topic, partition }, rest);
  opened.push(log);
  return log;
}

async function make(topic: string, settings: Record<string, string> = {}, numPartitions = 1): Promise<void> {
  const all = { 'retention.ms': '-1', ...settings };
  const configEntries = Object.entries(all).map(([name, value]) => ({ name, value }));
  await admin.createTopics({ topics: [{ topic, numPartitions, configEntries }], waitForLeaders: true });
}

async function settingsOf(topic: string): Promise<Map<string, string>> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: 2, name: topic }],
  });
  return new Map(resources[0]!.configEntries.map(({ configName, configValue }) => [configName, configValue]));
}

const day = 24 * 3600 * 1000;
test.each([
  ['headgate.control', 1, '-1'],
  ['headgate.usage', 12, String(35 * day)],
  ['headgate.status', 1, String(day)],
])('%s is created with %i partitions and kept for %s ms', async (topic, partitions, retention) => {
  const log = await open(topic, { partition: partitions - 1 });
  expect(await log.append(Buffer.from('x'))).toBe(0);
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  expect(topics[0]!.partitions).toHaveLength(partitions);
  const settings = await settingsOf(topic);
  expect(settings.get('cleanup.policy')).toBe('delete');
  expect(settings.get('retention.ms')).toBe(retention);
  expect(settings.get('message.timestamp.type')).toBe('LogAppendTime');
});

test('two processes can open all partitions of a topic at once, and fetches do not wait for each other', async () => {
  const logs = await Promise.all(
    Array.from({ length: 12 }, (_, partition) => open('headgate.usage', { partition })),
  );
  const ends = await Promise.all(logs.map((log) => log.end()));
  const tails = logs.map((log, n) => readRecords(log, 1, { from: ends[n]! }));
  for (const log of logs) await log.append(Buffer.from('y'));
  for (const records of await promptly(Promise.all(tails), 'all tails'))
    expect(String(records[0]!.value)).toBe('y');
});

test.each<[string, Record<string, string>, string]>([
  ['compacts', { 'cleanup.policy': 'compact' }, 'cleanup.policy=delete'],
  ['forgets by time', { 'retention.ms': '86400000' }, 'retention.ms=-1'],
  ['forgets by size', { 'retention.bytes': '1000000' }, 'retention.bytes=-1'],
  [
    'lets an outdated replica lead',
    { 'unclean.leader.election.enable': 'true' },
    'unclean.leader.election.enable=false',
  ],
  ['is recompressed by its brokers', { 'compression.type': 'zstd' }, 'compression.type=producer'],
  ['accepts batches of 100 MB', { 'max.message.bytes': '104857600' }, 'max.message.bytes=1048588'],
  ['cannot hold a commit of 900 KB', { 'max.message.bytes': '500000' }, 'max.message.bytes=1048588'],
])('a topic that %s is refused with the repairing command', async (what, settings, fix) => {
  const topic = `misset-${what.replaceAll(' ', '-')}`;
  await make(topic, settings);
  const refused = open(topic);
  await expect(refused).rejects.toThrow(TopicMisconfigured);
  await expect(refused).rejects.toThrow(
    `kafka-configs.sh --bootstrap-server BROKERS --alter --entity-type topics --entity-name ${topic} --add-config ${fix}`,
  );
  // Changes the setting as the printed command would. This old client must set all settings of a topic at once.
  const [name, value] = fix.split('=') as [string, string];
  const fixed = Object.entries({ 'retention.ms': '-1', [name]: value });
  const configEntries = fixed.map(([name, value]) => ({ name, value }));
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries }] });
  await expect.poll(async () => (await settingsOf(topic)).get(name)).toBe(value);
  expect(await (await open(topic)).end()).toBe(0);
});

test('a topic with too many or too few partitions is refused', async () => {
  await make('misset-many', {}, 3);
  await expect(open('misset-many')).rejects.toThrow(
    /has 3 partitions and needs 1, .*kafka-topics\.sh .*--create --topic misset-many --partitions 1 --replication-factor 1/,
  );
});

test('a longer retention than needed is accepted', async () => {
  await make('generous', { 'retention.ms': '7200000' });
  expect(await (await open('generous', { keepSeconds: 3600 })).end()).toBe(0);
  await expect(open('generous', { keepSeconds: 10_000 })).rejects.toThrow(TopicMisconfigured);
});

async function logOf(topic: string, count: number): Promise<ControlLog> {
  const log = await open(topic);
  for (let n = 0; n < count; n++) await log.append(Buffer.from(`r${n}`));
  return log;
}

/** Uses a client of its own, because the shared one would lose track of its brokers after changing a topic. */
async function deleteBefore(topic: string, offset: number): Promise<void> {
  const fresh = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
  await fresh.connect();
  try {
    await fresh.fetchTopicMetadata({ topics: [topic] });
    await fresh.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(offset) }] });
  } finally {
    await fresh.disconnect();
  }
}

test('records deleted before they were read are reported, and skipped only if allowed', async () => {
  const log = await logOf('trimmed', 10);
  await deleteBefore('trimmed', 6);
  await expect(readRecords(log, 1, { from: 5 })).rejects.toThrow(LogTruncated);
  expect((await readRecords(log, 4, { from: 6 })).map(({ offset }) => offset)).toEqual([6, 7, 8, 9]);
  const lenient = await open('trimmed', { allowTrimmed: true });
  expect((await readRecords(lenient, 4)).map(({ offset }) => offset)).toEqual([6, 7, 8, 9]);
});

test('deleting records ahead of a lagging tail is reported', async () => {
  const log = await logOf('overtaken', 10);
  const tail = log.tail({ from: 0, recordsMax: 2, bytesMax: 1 })[Symbol.asyncIterator]();
  await tail.next();
  const late = log.tail({ from: 3 })[Symbol.asyncIterator]();
  await deleteBefore('overtaken', 8);
  await expect(late.next()).rejects.toThrow(LogTruncated);
  await tail.return?.();
});

test.each([
  ['empty', 0],
  ['equally long', 5],
  ['longer', 9],
])(
  'a deleted and recreated topic, %s, is reported to tail, end and append',
  async (kind, count) => {
    const topic = `replaced-${kind.replace(' ', '-')}`;
    const log = await logOf(topic, 5);
    await log.end();
    const tail = log.tail({ from: 5 })[Symbol.asyncIterator]();
    const failing = tail.next();
    failing.catch(() => undefined);
    await admin.deleteTopics({ topics: [topic] });
    await expect.poll(() => admin.listTopics()).not.toContain(topic);
    await make(topic);
    const other = await open(topic);
    for (let n = 0; n < count; n++) await other.append(Buffer.from(`r${n}`));
    const error = await failing.catch((thrown: unknown) => thrown);
    expect(error instanceof LogReplaced || error instanceof LogTruncated, String(error)).toBe(true);
    await expect(log.end()).rejects.toThrow(LogReplaced);
    await expect(log.append(Buffer.from('lost'))).rejects.toThrow(LogReplaced);
    expect(await other.end()).toBe(count);
  },
  30_000,
);
