import { expect, onTestFinished, test } from 'vitest';
import { LogUnavailable } from '../../shared/log/core/control-log.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { usageMac } from '../../test/support/usage-mac.ts';
import { UsageReplicator, type UsageReplicatorOptions } from './usage-replicator.ts';
import { type AppliedUsage, openUsageStore, type UsageStore } from './usage-store.ts';

const a = '0f8fad5b-d9cb-469f-a165-70867728950e';
const period = '2026-11-01';

function record(...numbers: number[]): [Buffer, Buffer] {
  const value = Buffer.from(
    JSON.stringify(
      numbers.map((n) => ({
        v: 1,
        incarnation: a,
        n,
        at: '2026-11-21T10:00:00.000Z',
        organisation: 'acme',
        period,
        draw: 'pool',
        model: 'echo-small',
        promptTokens: n,
        completionTokens: 0,
        requestId: 'r',
      })),
    ),
  );
  return [value, usageMac.of(value)];
}
function newStore(): UsageStore {
  const store = openUsageStore(':memory:', { mac: usageMac });
  onTestFinished(() => store.close());
  return store;
}
function start(options: Partial<UsageReplicatorOptions> & Pick<UsageReplicatorOptions, 'store' | 'open'>) {
  const replicator = new UsageReplicator({ partitions: 1, ...options });
  onTestFinished(() => replicator.stop());
  replicator.start();
  return replicator;
}

test('a store follows every partition, from the beginning and live', async () => {
  const topics = [new MemoryTopic(), new MemoryTopic(), new MemoryTopic()];
  topics[0]!.add(...record(1));
  topics[2]!.add(...record(3));
  const store = newStore();
  const replicator = start({
    store,
    partitions: 3,
    open: async (partition) => new MemoryLog(topics[partition]!),
  });
  expect(await replicator.caughtUp(5_000)).toBe(true);
  expect([store.highWater(a), store.parkedRows]).toEqual([1, 1]);
  topics[1]!.add(...record(2));
  expect(await replicator.caughtUp(5_000)).toBe(true);
  expect(store.poolTokens('acme', period)).toBe(6);
});

test('applied rows are reported in the same turn of the event loop in which they were applied', async () => {
  const topic = new MemoryTopic();
  const store = newStore();
  const reports: [tokens: number, applied: AppliedUsage][] = [];
  const replicator = start({
    store,
    open: async () => new MemoryLog(topic),
    onApplied: (applied) => reports.push([store.poolTokens('acme', period), applied]),
  });
  topic.add(...record(1, 3));
  await replicator.caughtUp(5_000);
  expect(reports).toHaveLength(1);
  expect(reports[0]![0]).toBe(1);
  expect(reports[0]![1]).toMatchObject({ rows: [{ n: 1 }], gaps: [{ incarnation: a, next: 2 }] });
});

test.each<[claim: string, harm: (topic: MemoryTopic) => void]>([
  ['cut off', (topic) => topic.truncate(1)],
  ['replaced', (topic) => topic.replace()],
])('a log that was %s is read from its beginning, and nothing counts twice', async (_claim, harm) => {
  const topic = new MemoryTopic();
  const store = newStore();
  const opened: MemoryLog[] = [];
  const open = async () => {
    const log = new MemoryLog(topic);
    opened.push(log);
    return log;
  };
  let noticed = (): void => {};
  const notice = new Promise<void>((resolve) => {
    noticed = resolve;
  });
  const replicator = start({ store, open, onReachabilityChange: noticed });
  for (const n of [1, 2, 3]) topic.add(...record(n));
  await replicator.caughtUp(5_000);
  harm(topic);
  await notice;
  for (const n of [2, 3, 4]) topic.add(...record(n));
  while (store.poolTokens('acme', period) !== 10) await new Promise((resolve) => setImmediate(resolve));
  expect(store.counts).toMatchObject({ applied: 4, parked: 0 });
  for (const before of opened.slice(0, -1)) await expect(before.end()).rejects.toThrow('closed');
});

test('an unreachable log is reported once, retried, and reported when it answers', async () => {
  const topic = new MemoryTopic();
  topic.add(...record(1));
  const store = newStore();
  const reports: boolean[] = [];
  let opens = 0;
  const replicator = start({
    store,
    open: async () => {
      if (++opens < 3) throw new LogUnavailable('no broker');
      return new MemoryLog(topic);
    },
    onReachabilityChange: (reachable) => reports.push(reachable),
  });
  expect(await replicator.caughtUp(10)).toBe(false);
  expect(await replicator.caughtUp(10_000)).toBe(true);
  expect([reports, replicator.reachable]).toEqual([[false, true], true]);
});

test('a failing partition does not hold up the others', async () => {
  const topic = new MemoryTopic();
  topic.add(...record(1));
  const store = newStore();
  start({
    store,
    partitions: 2,
    open: async (partition) => {
      if (partition === 0) throw new LogUnavailable('no leader');
      return new MemoryLog(topic);
    },
  });
  while (store.poolTokens('acme', period) !== 1) await new Promise((resolve) => setImmediate(resolve));
  expect(store.nextOffset(0)).toBe(0);
});
