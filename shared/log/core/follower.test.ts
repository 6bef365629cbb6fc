/** Tests the behaviour that all followers share, whatever they fold. */
import { expect, onTestFinished, test } from 'vitest';
import { MemoryLog, MemoryTopic } from '../../../test/support/memory-log.ts';
import { howItWaits } from '../../../test/support/turns.ts';
import { until } from '../../../test/support/until.ts';
import { ReopenedLog } from '../reopened-log.ts';
import { LogUnavailable } from './control-log.ts';
import { Follower, type FollowerOptions } from './follower.ts';

/** Starts a follower that folds one record per slice, and collects what it has folded. */
function followed(topic: MemoryTopic, options: Partial<FollowerOptions> = {}) {
  const log = new ReopenedLog(async () => new MemoryLog(topic));
  const texts: string[] = [];
  const reached: boolean[] = [];
  const follower = new Follower({
    log,
    from: 0,
    fold: ([record]) => texts.push(String(record?.value)) && 1,
    onReachabilityChange: (reachable) => reached.push(reachable),
    ...options,
  });
  follower.start();
  onTestFinished(() => log.close());
  onTestFinished(() => follower.stop());
  return { follower, log, texts, reached };
}

function topicOf(...texts: string[]): MemoryTopic {
  const topic = new MemoryTopic();
  for (const text of texts) topic.add(Buffer.from(text));
  return topic;
}

test('records are folded in slices, and a failed slice is folded again, but none before it', async () => {
  const texts: string[] = [];
  let failures = 2;
  const { follower, reached } = followed(topicOf('a', 'b', 'c'), {
    fold: ([record]) => {
      if (String(record?.value) === 'b' && failures-- > 0) throw new Error('the disk is full');
      return texts.push(String(record?.value)) && 1;
    },
  });
  expect(await follower.caughtUp(10_000)).toBe(true);
  expect([texts, follower.position]).toEqual([['a', 'b', 'c'], 3]);
  expect(reached).toEqual([false, true]);
});

test.each<[string, (topic: MemoryTopic) => void]>([
  ['cut off', (topic) => topic.truncate(1)],
  ['replaced', (topic) => topic.replace()],
])('a log that was %s is read from its beginning, and its old end does not count', async (_, harm) => {
  const topic = topicOf('a', 'b', 'c');
  let restarts = 0;
  const { follower, log, texts } = followed(topic, { onRestart: () => void restarts++ });
  await follower.caughtUp(5000);
  const caughtUp = follower.caughtUp(5000);
  harm(topic);
  await log.end().catch(() => undefined);
  await until(() => restarts === 1);
  topic.add(Buffer.from('z'));
  await caughtUp;
  expect(await follower.caughtUp(5000)).toBe(true);
  expect([restarts, texts.at(-1), follower.position]).toEqual([1, 'z', topic.end]);
});

test('after another call finds the log replaced, the new end does not count for the old log', async () => {
  const topic = topicOf('a', 'b', 'c');
  const { follower, log, texts } = followed(topic);
  await follower.caughtUp(5000);
  topic.replace();
  topic.add(Buffer.from('z'));
  await expect(log.append(Buffer.from('x'))).rejects.toThrow(LogUnavailable);
  expect(await log.end()).toBe(1);
  expect(await follower.caughtUp(5000)).toBe(true);
  expect(texts).toEqual(['a', 'b', 'c', 'z']);
});

test('a fatal error stops the follower for good and ends all waits', async () => {
  const faults: Error[] = [];
  const { follower } = followed(topicOf('a'), {
    fold: () => {
      throw new Error('damaged');
    },
    isFatal: ({ message }: Error) => message === 'damaged',
    onFault: (error) => faults.push(error),
  } as Partial<FollowerOptions>);
  await expect(follower.caughtUp(5000)).rejects.toThrow('damaged');
  expect(faults).toEqual([follower.fault]);
  expect(await howItWaits(() => follower.until(() => false, 20))).toBe('threw');
});

test('an end that never comes is awaited until the deadline, and a stopped follower ends all waits', async () => {
  const topic = topicOf('a');
  const log = Object.assign(new MemoryLog(topic), { end: () => new Promise<never>(() => {}) });
  const { follower, texts } = followed(topic, { log });
  expect(await follower.caughtUp(20)).toBe(false);
  for (const waitMs of [20, 0.01])
    expect(await howItWaits(() => follower.until(() => false, waitMs))).toBe('waited');
  const waiting = follower.until(() => false, 60_000);
  await Promise.all([expect(waiting).rejects.toThrow(LogUnavailable), follower.stop()]);
  topic.add(Buffer.from('b'));
  expect(await howItWaits(() => follower.caughtUp(5000))).toBe('threw');
  expect(texts).toEqual(['a']);
});

test('a slice is shorter while the event loop has other work, and runs once a turn had none', async () => {
  const topic = topicOf(...Array.from({ length: 400 }, (_, n) => `${n}`));
  const budgets: number[] = [];
  const [from, to] = [100, 120];
  let turns = 0;
  let turnsAmong = 0;
  /** Simulates other work on the event loop, such as what a request does between two awaits. */
  const other = (): void => {
    const untilMs = performance.now() + 0.5;
    while (performance.now() < untilMs);
    turns++;
    if (budgets.length < to) setImmediate(other);
  };
  const fold = (_: unknown, budgetMs: number): number => {
    budgets.push(budgetMs);
    if (budgets.length === from) other();
    if (budgets.length === to) turnsAmong = turns;
    return 1;
  };
  const { follower } = followed(topic, { fold });
  await follower.caughtUp(30_000);
  const among = budgets.slice(from + 2, to);
  expect(budgets).toContain(5);
  expect([...new Set(among)]).toEqual([2]);
  // Between slices, the follower waited for other turns for as long as there were any.
  expect(turnsAmong).toBeGreaterThan(among.length);
});
