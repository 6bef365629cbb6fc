/** The memory log keeps the contract of every adapter, and its faults do what their names state. */
import { expect, test } from 'vitest';
import {
  AppendUnknown,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import { controlLogContract, readRecords } from '../contract/control-log.ts';
import { type AppendFault, MemoryLog, MemoryTopic } from './memory-log.ts';

controlLogContract('the memory log', async () => {
  const topic = new MemoryTopic();
  return { open: async () => new MemoryLog(topic), dispose: async () => undefined };
});

const value = Buffer.from('value');

function logWith(fault: AppendFault) {
  const topic = new MemoryTopic();
  return { topic, log: new MemoryLog(topic, { fault: () => fault }) };
}

test.each<[AppendFault, number, number]>([
  ['lost', 0, 0],
  ['ack-lost', 1, 1],
  ['delayed', 0, 1],
])('an append that is %s leaves its writer without a result', async (fault, endBefore, endAfter) => {
  const { topic, log } = logWith(fault);
  await expect(log.append(value)).rejects.toThrow(AppendUnknown);
  expect(topic.end).toBe(endBefore);
  topic.release();
  expect(topic.end).toBe(endAfter);
});

test('an append that is duplicated is in the log twice', async () => {
  const { topic, log } = logWith('duplicated');
  expect(await log.append(value)).toBe(1);
  expect((await readRecords(log, 2)).map((record) => record.offset)).toEqual([0, 1]);
  expect(topic.end).toBe(2);
});

test('an append that is refused is not in the log, and its writer knows', async () => {
  const { topic, log } = logWith('refused');
  await expect(log.append(value)).rejects.toThrow(LogUnavailable);
  expect(topic.end).toBe(0);
});

test('a tail ahead of a truncated log reports it', async () => {
  const topic = new MemoryTopic();
  const log = new MemoryLog(topic);
  for (let n = 0; n < 5; n++) await log.append(value);
  const tail = log.tail({ from: 0 });
  await tail.next();
  const waiting = tail.next();
  topic.truncate(2);
  await expect(waiting).rejects.toThrow(LogTruncated);
});

test('a replaced log refuses the clients of the one before it', async () => {
  const topic = new MemoryTopic();
  const log = new MemoryLog(topic);
  await log.append(value);
  const waiting = log.tail({ from: 1 }).next();
  topic.replace();
  await expect(waiting).rejects.toThrow(LogReplaced);
  await expect(log.append(value)).rejects.toThrow(LogReplaced);
  await expect(log.end()).rejects.toThrow(LogReplaced);
  expect(await new MemoryLog(topic).end()).toBe(0);
});
