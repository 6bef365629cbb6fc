/** Tests that a log is recognised as another one if it was truncated, replaced or created again after it was folded. */
import { expect, test } from 'vitest';
import { ChainWriter, fleetHistory } from '../../test/support/commits.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { readRecord } from '../log/core/batches-to-end.ts';
import { type LogRecord, LogReplaced, LogTruncated } from '../log/core/control-log.ts';
import { checkIdentity, readLogId, WrongPosition } from './log-identity.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';

function chain(log: string, commits: number, seed = 1, writer = new ChainWriter({ log })): LogRecord[] {
  return [writer.open(), ...fleetHistory(seed, commits).map((events) => writer.add(events))];
}
function logOf(records: readonly { value: Buffer }[]): MemoryLog {
  const topic = new MemoryTopic();
  for (const { value } of records) topic.add(value);
  return new MemoryLog(topic);
}
function foldedFrom(records: readonly LogRecord[]): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  return snapshot;
}
const ours = chain('ours', 10);
const junk = { value: Buffer.from('junk') };

test.each([
  ['exactly the folded records', ours],
  ['more than the folded records', chain('ours', 15)],
  ['junk after the folded records', [...ours, junk]],
])('a log with %s is ours', async (_, records) => {
  await expect(checkIdentity(logOf(records), foldedFrom(ours))).resolves.toBeUndefined();
});

test.each([
  ['a truncated log', ours.slice(0, 8), LogTruncated, /ends before commit 11, which was folded from it/],
  ['a log cut to its first record', ours.slice(0, 1), LogTruncated, /ends before commit 11/],
  [
    'a truncated log that was continued',
    chain('ours', 10, 2),
    LogTruncated,
    /no longer holds commit 11 as it was folded/,
  ],
  ['an empty log', [], LogReplaced, /this is log \(empty\), but what was folded came from log ours/],
  ['a re-created log', chain('theirs', 3), LogReplaced, /this is log theirs, but .* came from log ours/],
  ['a foreign log of the same length', chain('theirs', 10), LogReplaced, /this is log theirs/],
  ['a log of mere junk', Array.from({ length: 20 }, () => junk), LogReplaced, /this is log \(empty\)/],
])('%s is refused and named', async (_, records, kind, message) => {
  const check = checkIdentity(logOf(records), foldedFrom(ours));
  await expect(check).rejects.toThrow(kind);
  await expect(check).rejects.toThrow(message);
});

test.each([
  ['an earlier commit', { seq: 10 }],
  ['a future commit', { seq: 2 ** 53 }],
  ['no commit', { seq: -1 }],
  ['another log', { log: 'theirs' }],
])('a position at the last folded record, but for %s, is not of this log', async (_, change) => {
  const { log, seq, headOffset, head } = foldedFrom(ours);
  const wrong = { log, seq, headOffset, head, ...change };
  await expect(checkIdentity(logOf(ours), wrong)).rejects.toThrow(WrongPosition);
});

test('a snapshot without commits fits any log', async () => {
  for (const records of [[], ours, [junk]])
    await expect(checkIdentity(logOf(records), memorySnapshot())).resolves.toBeUndefined();
});

test('a log’s id is that of its first valid record, after junk and copies', async () => {
  expect(await readLogId(logOf([junk, junk, ...ours, ...chain('theirs', 2)]))).toBe('ours');
  expect(await readLogId(logOf([]))).toBeNull();
  expect(await readLogId(logOf([junk]))).toBeNull();
  expect(await readLogId(logOf(ours.slice(1)))).toBeNull();
});

test('junk before the first record is skipped, up to a limit', async () => {
  const lots = Array.from({ length: 10_200 }, () => junk);
  expect(await readLogId(logOf([...lots.slice(0, 9_900), ...ours]))).toBe('ours');
  expect(await readLogId(logOf([...lots, ...ours]))).toBeNull();
});

test('the record at an offset is read, or nothing beyond the end', async () => {
  const log = logOf(ours);
  expect((await readRecord(log, 4))?.value).toEqual(ours[4]?.value);
  expect(await readRecord(log, ours.length)).toBeUndefined();
});
