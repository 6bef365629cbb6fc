/** Tests the removal of ended keys: the clocks that it follows, and replicas that run at the same time. */
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { dayMs } from '../../schemas/durations.ts';
import { parseCommit } from '../../schemas/events/commit.ts';
import { readEvent } from '../../schemas/events/events.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import { ChainWriter, firstMomentMs, known, sha256 } from '../../test/support/commits.ts';
import { quiet } from '../../test/support/fleet.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { CommandWriter } from './command-writer.ts';
import { EndedKeys } from './ended-keys.ts';

const created = (n: number, expiresAt: string | null = null) =>
  known('key.created', {
    ...{ id: `key-${n}`, organisation: 'acme', name: `service ${n}`, hash: sha256(`k ${n}`) },
    ...{ expires: expiresAt === null ? 'never' : '30d', expiresAt },
  });

/** Time of the log's clock, in ms since the first moment. */
let logMs = 0;
/** Time that has passed on this machine, in ms, if it differs from the log's time. */
let passedMs: number | undefined;
afterEach(() => {
  passedMs = undefined;
});
function topicOf(...commits: ReturnType<typeof created>[][]): MemoryTopic {
  logMs = 0;
  const topic = new MemoryTopic(() => firstMomentMs + logMs);
  const writer = new ChainWriter();
  topic.add(writer.open().value);
  for (const events of commits) topic.add(writer.add(events).value);
  return topic;
}

async function replicaOn(topic: MemoryTopic, now = () => firstMomentMs + logMs) {
  const snapshot = memorySnapshot();
  const log = new MemoryLog(topic);
  const replicator = new Replicator({ snapshot, log });
  replicator.start();
  onTestFinished(() => replicator.stop());
  await replicator.caughtUp(10_000);
  const writer = new CommandWriter({ snapshot, replicator, log, now });
  const clocks = { now, monotonicMs: () => passedMs ?? logMs };
  const endedKeys = new EndedKeys({ name: 'cp', snapshot, replicator, writer, logger: quiet, ...clocks });
  const ids = () => snapshot.db.prepare('SELECT id FROM api_key ORDER BY id').pluck().all();
  /** Moves the log's clock by writing a record. */
  const at = async (days: number) => {
    logMs = days * dayMs;
    await writer.write(`tick-${days}-${Math.random()}`, 'operator', () => [{ type: 'no_op', data: {} }]);
  };
  return { endedKeys, ids, at, log, snapshot, replicator };
}

const month = '2026-01-31T00:00:00Z';
const three = [created(1), created(2, month), created(3)];

test('revoked and expired keys are deleted 90 days after their end, and active keys never', async () => {
  const { endedKeys, ids, at } = await replicaOn(topicOf(three, [known('key.revoked', { id: 'key-1' })]));
  await at(89);
  expect([await endedKeys.forget(), ids()]).toEqual([0, ['key-1', 'key-2', 'key-3']]);
  await at(91);
  expect([await endedKeys.forget(), ids()]).toEqual([1, ['key-2', 'key-3']]);
  await at(121);
  expect([await endedKeys.forget(), ids()]).toEqual([1, ['key-3']]);
  await at(5000);
  expect([await endedKeys.forget(), ids()]).toEqual([0, ['key-3']]);
});

test('the log keeps a deleted key’s id, organisation and name', async () => {
  const topic = topicOf([created(2, month)]);
  const { endedKeys, at } = await replicaOn(topic);
  await at(121);
  await endedKeys.forget();
  const { events = [], by } = parseCommit(topic.read(topic.end - 1, 1, 1)[0]?.value ?? Buffer.of()) ?? {};
  expect(events.map(readEvent)).toEqual([
    {
      outcome: 'known',
      event: { type: 'key.forgotten', data: { id: 'key-2', organisation: 'acme', name: 'service 2' } },
    },
  ]);
  expect(by).toBe('control-plane:cp');
  // The event is not critical: a reader that does not know it skips it and keeps the key as ended.
  expect(events.map(({ critical }) => critical)).toEqual([false]);
});

test('neither this machine’s fast clock nor the log’s deletes a key too soon', async () => {
  const ahead = await replicaOn(topicOf([created(2, month)]), () => firstMomentMs + 1000 * dayMs);
  await ahead.at(100);
  expect([await ahead.endedKeys.forget(), ahead.ids()]).toEqual([0, ['key-2']]);
  const behind = await replicaOn(topicOf([created(2, month)]), () => firstMomentMs + 100 * dayMs);
  await behind.at(1000);
  expect([await behind.endedKeys.forget(), behind.ids()]).toEqual([0, ['key-2']]);
});

test('even both clocks together delete no key faster than time passes', async () => {
  const { endedKeys, ids, at } = await replicaOn(topicOf([created(2, month)]));
  passedMs = 0;
  await at(1);
  expect(await endedKeys.forget()).toBe(0);
  await at(500);
  expect([await endedKeys.forget(), ids()]).toEqual([0, ['key-2']]);
  passedMs = 200 * dayMs;
  expect([await endedKeys.forget(), ids()]).toEqual([1, []]);
});

test('several replicas delete each key once', async () => {
  const topic = topicOf([created(1, month), created(2, month), created(3, month)]);
  const replicas = [await replicaOn(topic), await replicaOn(topic), await replicaOn(topic)];
  await replicas[0]?.at(200);
  await Promise.all(replicas.map(({ replicator }) => replicator.caughtUp(10_000)));
  const before = replicas[0]?.snapshot.seq ?? 0;
  await Promise.all(replicas.map(({ endedKeys }) => endedKeys.forget()));
  for (const { snapshot, replicator, ids } of replicas) {
    await replicator.caughtUp(10_000);
    expect([snapshot.seq, ids()]).toEqual([before + 1, []]);
  }
});

test('a commit deletes a limited number of keys, oldest end first', async () => {
  const many = Array.from({ length: 1200 }, (_, n) =>
    created(n, new Date(firstMomentMs + dayMs - n * 1000).toISOString()),
  );
  const { endedKeys, ids, at } = await replicaOn(topicOf(many));
  await at(100);
  expect(await endedKeys.forget()).toBe(500);
  expect(ids()).not.toContain('key-1199');
  expect(ids()).toContain('key-0');
  expect([await endedKeys.forget(), await endedKeys.forget(), await endedKeys.forget()]).toEqual([
    500, 200, 0,
  ]);
  expect(ids()).toEqual([]);
});

test('nothing is deleted before a record of the log gives the time', async () => {
  const topic = topicOf([created(2, month)]);
  const first = await replicaOn(topic);
  await first.at(500);
  const { snapshot, log } = first;
  await first.replicator.stop();
  const replicator = new Replicator({ snapshot, log });
  const writer = new CommandWriter({ snapshot, replicator, log });
  const again = new EndedKeys({ name: 'cp', snapshot, replicator, writer, logger: quiet });
  expect([await again.forget(), first.ids()]).toEqual([0, ['key-2']]);
});
