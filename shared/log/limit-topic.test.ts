/** Tests a topic for limits on the embedded log and on the in-memory log. test/kafka/ runs the same tests on Kafka. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { countersTopic, gaugesTopic } from '../../schemas/records/limits.ts';
import { limitTopicContract } from '../../test/contract/limit-topic.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { LogUnavailable } from './core/control-log.ts';
import { openEmbeddedLog } from './embedded/embedded-log.ts';
import { LimitTopic, openLimitTopic } from './limit-topic.ts';

const onFault = (): void => undefined;

limitTopicContract('the embedded log', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-limit-topic-'));
  const open = () => openEmbeddedLog({ folder, address: { topic: countersTopic }, allowTrimmed: true });
  return {
    open,
    replace: async () => {
      rmSync(folder, { recursive: true });
      await (await open()).close();
    },
    dispose: async () => rmSync(folder, { recursive: true, force: true }),
  };
});

limitTopicContract('the log in memory', async () => {
  const topic = new MemoryTopic();
  return {
    open: async () => new MemoryLog(topic),
    replace: async () => topic.replace(),
    dispose: async () => undefined,
  };
});

test('the embedded log finds a time by bisection, even with removed records and stepped clocks', async () => {
  const folder = folderOfTest('limit-topic');
  let nowMs = 1_000_000;
  const log = await openEmbeddedLog({
    folder,
    address: { topic: gaugesTopic },
    keepSeconds: 100,
    trimEverySeconds: 0,
    allowTrimmed: true,
    now: () => nowMs,
    monotonicMs: () => nowMs,
  });
  for (let n = 0; n < 50; n++) {
    nowMs += 10_000;
    await log.append(Buffer.from(`r${n}`));
  }
  expect(await log.offsetAt(0)).toBeGreaterThan(30);
  expect(await log.offsetAt(nowMs - 30_000)).toBe(46);
  expect(await log.offsetAt(nowMs - 29_999)).toBe(47);
  expect(await log.offsetAt(nowMs + 1)).toBe(50);
  await log.close();
});

test('a topic that cannot be opened is reported once with the reason, and retried', async () => {
  const memory = new MemoryTopic();
  let isAway = true;
  const changes: (string | boolean)[] = [];
  const topic = new LimitTopic({
    topic: gaugesTopic,
    open: async () => {
      if (isAway)
        throw new LogUnavailable('topic headgate.gauges is set to cleanup.policy=compact; fix it: …');
      return new MemoryLog(memory);
    },
    tokens: ['token-of-sixteen-bytes'],
    onReachabilityChange: (reachable, error) => changes.push(error?.message ?? reachable),
  });
  const texts: string[] = [];
  const onBatch = ({ records }: { records: readonly { value: Buffer }[] }) =>
    void texts.push(...records.map(({ value }) => value.toString()));
  topic.follower({ from: 0, onBatch, onFault }).start();
  await expect(topic.append(Buffer.from('a'))).rejects.toThrow('cleanup.policy');
  await expect(topic.append(Buffer.from('b'))).rejects.toThrow('cleanup.policy');
  isAway = false;
  await topic.append(Buffer.from('c'));
  await until(() => texts.length === 1);
  expect(changes).toEqual([expect.stringContaining('fix it'), true]);
  await topic.close();
});

test('a log folder that was moved away is not created again', async () => {
  const folder = folderOfTest('limit-topic');
  const topic = openLimitTopic(`sqlite:${folder}/log`, {
    topic: gaugesTopic,
    tokens: ['token-of-sixteen-bytes'],
  });
  await topic.append(Buffer.from('a'));
  rmSync(join(folder, 'log'), { recursive: true });
  for (let n = 0; n < 3; n++) await expect(topic.append(Buffer.from('b'))).rejects.toThrow(LogUnavailable);
  await topic.close();
});

test('a pausing reader reads what arrived meanwhile at once, and one that is behind does not pause', async () => {
  const memory = new MemoryTopic();
  const tokens = ['token-of-sixteen-bytes'] as const;
  const topic = new LimitTopic({ topic: gaugesTopic, open: async () => new MemoryLog(memory), tokens });
  const publish = async (count: number) => {
    for (let n = 0; n < count; n++) await topic.append(Buffer.from('r'));
  };
  const sizes: number[] = [];
  const rests: (() => void)[] = [];
  const rest = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve());
      rests.push(resolve);
    });
  await publish(300);
  const onBatch = ({ records }: { records: readonly unknown[] }) => void sizes.push(records.length);
  topic.follower({ from: 0, onBatch, onFault, rest }).start();
  await until(() => sizes.length === 1);
  await publish(1);
  await until(() => rests.length === 1);
  await publish(50);
  rests[0]?.();
  await until(() => rests.length === 2);
  expect(sizes).toEqual([300, 1, 50]);
  await topic.close();
});

test('an append does not hide that the topic cannot be read', async () => {
  const unread = Object.assign(new MemoryLog(new MemoryTopic()), {
    // biome-ignore lint/correctness/useYield: it fails before the first batch
    tail: async function* (): AsyncGenerator<never> {
      throw new LogUnavailable('no right to read');
    },
  });
  const changes: (string | boolean)[] = [];
  const topic = new LimitTopic({
    topic: gaugesTopic,
    open: async () => unread,
    tokens: ['token-of-sixteen-bytes'],
    onReachabilityChange: (reachable, error) => changes.push(error?.message ?? reachable),
  });
  topic.follower({ from: 0, onBatch: () => undefined, onFault }).start();
  await until(() => changes.length === 1);
  for (let n = 0; n < 3; n++) await topic.append(Buffer.from('a'));
  expect(changes).toEqual(['no right to read']);
  expect(topic.reachable).toBe(false);
  await topic.close();
});
