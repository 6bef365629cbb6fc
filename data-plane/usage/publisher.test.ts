import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { usagePartition, usageTopic } from '../../schemas/records/usage.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { type AppendFault, MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { TurnCounter } from '../../test/support/turns.ts';
import { within } from '../../test/support/until.ts';
import { UsageBox, usageRow } from '../../test/support/usage-rows.ts';
import type { Outbox } from './outbox.ts';
import { Publisher } from './publisher.ts';

const mac = new RecordMac(usageTopic, 'gateway-token-of-the-tests');
let folder: string;
let box: UsageBox;
let outbox: Outbox;
const running: Publisher[] = [];

beforeEach(() => {
  folder = folderOfTest('publisher');
  openBox();
});
afterEach(async () => {
  for (const each of running.splice(0)) await each.stop(0);
  await box.close();
});

function openBox(): void {
  box = new UsageBox({ path: join(folder, 'outbox.db') });
  outbox = box.outbox;
}

async function record(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 500)
    await box.record(...Array.from({ length: Math.min(left, 500) }, () => usageRow()));
}

interface PublishedRow {
  readonly incarnation: string;
  readonly n: number;
}
function rowsOf(topic: MemoryTopic): PublishedRow[][] {
  return topic.read(0, 1_000_000, Number.MAX_SAFE_INTEGER).map(({ value }) => JSON.parse(value.toString()));
}
async function recordsIn(topic: MemoryTopic, count: number): Promise<void> {
  if (topic.end >= count) return;
  for await (const batch of new MemoryLog(topic).tail({ from: 0 })) if (batch.nextOffset >= count) return;
}
function start(
  open: (partition: number) => Promise<ControlLog>,
  onReachabilityChange = (_: boolean) => {},
): Publisher {
  const publisher = new Publisher({ outbox, mac, partitions: 12, open, onReachabilityChange });
  running.push(publisher);
  publisher.start();
  return publisher;
}

test('rows are sent in order, five hundred per record, to their incarnation’s partition', async () => {
  const topic = new MemoryTopic();
  const opened: number[] = [];
  start(async (partition) => {
    opened.push(partition);
    return new MemoryLog(topic);
  });
  await record(1250);
  await recordsIn(topic, 3);
  expect(rowsOf(topic).map((rows) => rows.length)).toEqual([500, 500, 250]);
  expect(
    rowsOf(topic)
      .flat()
      .map(({ n }) => n),
  ).toEqual(Array.from({ length: 1250 }, (_, index) => index + 1));
  expect(opened).toEqual([usagePartition(outbox.incarnation, 12)]);
  await record(1);
  await recordsIn(topic, 4);
  expect(rowsOf(topic)[3]).toEqual([expect.objectContaining({ n: 1251, incarnation: outbox.incarnation })]);
});

test.each<[fault: AppendFault, copies: number]>([
  ['lost', 1],
  ['refused', 1],
  ['ack-lost', 2],
  ['duplicated', 2],
])(
  'an append that is %s is repeated until the log has it, and nothing overtakes it',
  async (fault, copies) => {
    const topic = new MemoryTopic();
    let appends = 0;
    start(async () => new MemoryLog(topic, { fault: () => (appends++ === 0 ? fault : 'none') }));
    await record(1);
    await recordsIn(topic, copies);
    await record(1);
    await recordsIn(topic, copies + 1);
    expect(rowsOf(topic).map((rows) => rows.map(({ n }) => n))).toEqual([...Array(copies).fill([1]), [2]]);
  },
);

test('a log that cannot be opened is reported once, retried, and reported when it answers', async () => {
  const topic = new MemoryTopic();
  let opens = 0;
  const reports: boolean[] = [];
  start(
    async () => {
      if (++opens < 3) throw new Error('no broker');
      return new MemoryLog(topic);
    },
    (reachable) => reports.push(reachable),
  );
  await record(1);
  await recordsIn(topic, 1);
  await record(1);
  await recordsIn(topic, 2);
  expect(reports).toEqual([false, true]);
});

test('a log that was replaced is reopened', async () => {
  const topic = new MemoryTopic();
  start(async () => new MemoryLog(topic));
  await record(1);
  await recordsIn(topic, 1);
  topic.replace();
  await record(1);
  await recordsIn(topic, 1);
  expect(rowsOf(topic)).toEqual([[expect.objectContaining({ n: 2 })]]);
});

test('stopping ships the remaining rows if the log accepts them', async () => {
  const topic = new MemoryTopic();
  const publisher = start(async () => new MemoryLog(topic));
  await record(3);
  await publisher.stop(5_000);
  expect(rowsOf(topic).flat()).toHaveLength(3);
  expect(outbox.unshipped).toBe(0);
});

test('stopping is bounded if the log does not answer, and the rows remain', async () => {
  const silent = { append: () => new Promise<number>(() => {}), close: async () => {} };
  const publisher = start(async () => silent as unknown as ControlLog);
  await record(3);
  await within(2000, publisher.stop(100));
  expect(outbox.unshipped).toBe(3);
});

test('shipping a long backlog yields to the event loop between records', async () => {
  await record(9_999);
  outbox.flush();
  const log = await openEmbeddedLog({ folder: join(folder, 'log'), address: { topic: 'headgate.usage' } });
  const appends = new TurnCounter();
  const counted: ControlLog = {
    append: (value) => {
      appends.count();
      return log.append(value);
    },
    tail: (options) => log.tail(options),
    end: () => log.end(),
    close: () => log.close(),
  };
  const publisher = start(async () => counted);
  await publisher.stop(10_000);
  expect(outbox.unshipped).toBe(0);
  expect(appends.most).toBeLessThan(5);
});

test('a second stop with remaining rows does not spin', async () => {
  const silent = { append: () => new Promise<number>(() => {}), close: async () => {} };
  const publisher = start(async () => silent as unknown as ControlLog);
  await record(3);
  await publisher.stop(10);
  const before = process.cpuUsage();
  await publisher.stop(1_000);
  const { user, system } = process.cpuUsage(before);
  expect(user + system).toBeLessThan(500_000);
});
