/**
 * Tests that the embedded log fulfils the contract of all adapters, and reports every fault of its file: removal,
 * replacement, truncation, damage, a lock or a full disk. `embedded-log.process.test.ts` covers several processes.
 */
import {
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  controlLogContract,
  promptly,
  readRecords,
  waitingTail,
} from '../../../test/contract/control-log.ts';
import { folderOfTest } from '../../../test/support/folders.ts';
import { howItWaits, TurnCounter } from '../../../test/support/turns.ts';
import { openDatabase } from '../../runtime/sqlite.ts';
import { type ControlLog, LogReplaced, LogTruncated, LogUnavailable } from '../core/control-log.ts';
import { type EmbeddedLogOptions, embeddedLogPath, openEmbeddedLog } from './embedded-log.ts';

const address = { topic: 'headgate.control' };

controlLogContract('the embedded log', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-log-'));
  return {
    open: () => openEmbeddedLog({ folder, address }),
    dispose: async () => rmSync(folder, { recursive: true }),
  };
});

let folder: string;
let path: string;
let opened: ControlLog[];
beforeEach(() => {
  folder = folderOfTest('log');
  path = embeddedLogPath(folder, address);
  opened = [];
});
afterEach(async () => {
  for (const log of opened) await log.close();
});

async function open(options: Partial<EmbeddedLogOptions> = {}): Promise<ControlLog> {
  const log = await openEmbeddedLog({ folder, address, ...options });
  opened.push(log);
  return log;
}

async function logOf(count: number, options: Partial<EmbeddedLogOptions> = {}): Promise<ControlLog> {
  const log = await open(options);
  for (let n = 0; n < count; n++) await log.append(Buffer.from(`r${n}`));
  return log;
}

test('folder and files are readable only by their owner', async () => {
  const inner = join(folder, 'a', 'b');
  await logOf(1, { folder: inner });
  expect(statSync(inner).mode & 0o777).toBe(0o700);
  for (const file of readdirSync(inner)) expect(statSync(join(inner, file)).mode & 0o777).toBe(0o600);
});

test('each topic and each partition has its own file', async () => {
  const control = await logOf(2);
  const usage = await logOf(1, { address: { topic: 'headgate.usage', partition: 3 } });
  expect([await control.end(), await usage.end()]).toEqual([2, 1]);
  expect(readdirSync(folder).filter((name) => name.endsWith('.db'))).toEqual([
    'headgate.control.db',
    'headgate.usage-3.db',
  ]);
});

async function removeFile(): Promise<void> {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
}
async function replaceFile(): Promise<void> {
  const other = await openEmbeddedLog({ folder: join(folder, 'other'), address });
  await other.append(Buffer.from('foreign'));
  await other.close();
  await removeFile();
  renameSync(embeddedLogPath(join(folder, 'other'), address), path);
}

test.each([
  ['removed', removeFile],
  ['replaced', replaceFile],
])('a file %s under an open log is reported by append, end and a waiting tail', async (_, harm) => {
  const log = await logOf(2);
  const waiting = await waitingTail(log, await open());
  await harm();
  await expect(promptly(waiting.ended, 'noticing')).rejects.toThrow(LogReplaced);
  await expect(log.append(Buffer.from('x'))).rejects.toThrow(LogReplaced);
  await expect(log.end()).rejects.toThrow(LogReplaced);
});

test('truncating a log before a waiting tail’s position is reported', async () => {
  const log = await logOf(5);
  const waiting = await waitingTail(log, await open());
  const db = openDatabase(path, { durability: 'normal' });
  db.exec('DELETE FROM record WHERE offset >= 2');
  db.close();
  await expect(promptly(waiting.ended, 'noticing')).rejects.toThrow(LogTruncated);
});

test('truncating a log is reported to a tail that has read beyond the point of an earlier check', async () => {
  // With fake timers, the file is checked only when the test advances the clock. This simulates a busy machine.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const log = await logOf(1);
    let position = 0;
    const ended = (async () => {
      for await (const { nextOffset } of log.tail({ from: 0 })) position = nextOffset;
    })();
    const waitsAt = async (end: number) => {
      for (let turns = 0; position < end || turns < 10; turns++)
        await new Promise((resolve) => setImmediate(resolve));
    };
    await waitsAt(1);
    await vi.advanceTimersByTimeAsync(1000);
    await log.append(Buffer.from('own'));
    await waitsAt(2);
    const db = openDatabase(path, { durability: 'normal' });
    db.exec('DELETE FROM record WHERE offset >= 1');
    db.close();
    const rejection = expect(ended).rejects.toThrow(LogTruncated);
    await vi.advanceTimersByTimeAsync(1000);
    await rejection;
  } finally {
    vi.useRealTimers();
  }
});

test('a log without its first records is reported, unless trimming is allowed', async () => {
  const log = await logOf(5);
  const db = openDatabase(path, { durability: 'normal' });
  db.exec('DELETE FROM record WHERE offset < 2');
  db.close();
  await expect(readRecords(log, 1)).rejects.toThrow(LogTruncated);
  const tolerant = await open({ allowTrimmed: true });
  expect((await readRecords(tolerant, 3, { recordsMax: 1 })).map((record) => record.offset)).toEqual([
    2, 3, 4,
  ]);
});

test('damaged pages are reported with advice', async () => {
  const log = await logOf(200);
  for (let n = 0; n < 50; n++) await log.append(Buffer.alloc(4000));
  await log.close();
  const file = openSync(path, 'r+');
  for (let page = 2; page < 40; page++) writeSync(file, Buffer.alloc(4096, 0x5a), 0, 4096, page * 4096);
  const damaged = await open();
  await expect(readRecords(damaged, 250)).rejects.toThrow(/damaged.*backup/s);
  await expect(readRecords(damaged, 250)).rejects.toThrow(LogUnavailable);
});

test('a file that is not a database is reported with the next step', async () => {
  await (await logOf(1)).close();
  truncateSync(path, 0);
  writeSync(openSync(path, 'r+'), Buffer.alloc(8192, 'not a database'));
  await expect(open()).rejects.toThrow(/damaged.*backup/s);
});

test('a file in a later format is not changed', async () => {
  await (await logOf(1)).close();
  const db = openDatabase(path, { durability: 'normal' });
  db.pragma('user_version = 99');
  db.close();
  await expect(open()).rejects.toThrow(/later version/);
});

test('a folder that cannot be created is reported', async () => {
  await logOf(1);
  await expect(open({ folder: join(path, 'inner') })).rejects.toThrow(LogUnavailable);
});

function locked(): { release(): void } {
  const db = openDatabase(path, { durability: 'normal' });
  db.exec('BEGIN IMMEDIATE');
  return { release: () => db.close() };
}

test('an append waits for another process’s lock without blocking the event loop', async () => {
  const log = await logOf(1);
  const lock = locked();
  let appended = false;
  const append = log.append(Buffer.from('x')).then((offset) => {
    appended = true;
    return offset;
  });
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
  expect(appended).toBe(false);
  expect(await log.end()).toBe(1);
  lock.release();
  expect(await promptly(append, 'the append')).toBe(1);
});

test('an append gives up at its deadline without writing, and the next one works', async () => {
  const log = await logOf(1, { lockDeadlineMs: 50 });
  const lock = locked();
  await expect(log.append(Buffer.from('x'))).rejects.toThrow(LogUnavailable);
  lock.release();
  expect(await log.append(Buffer.from('y'))).toBe(1);
});

test('closing refuses appends that still wait for a lock', async () => {
  const log = await logOf(1);
  const lock = locked();
  const append = log.append(Buffer.from('x'));
  append.catch(() => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  await promptly(log.close(), 'closing');
  await expect(append).rejects.toThrow(/is closed/);
  lock.release();
  expect(await (await open()).end()).toBe(1);
});

test('the queue of waiting appends is bounded', async () => {
  const log = await logOf(1, { lockDeadlineMs: 100 });
  const lock = locked();
  const large = Buffer.alloc(900 * 1024);
  const appends = Array.from({ length: 80 }, () => log.append(large).catch((error: Error) => error.message));
  const refused = (await Promise.all(appends)).filter((text) => String(text).includes('too many'));
  expect(refused.length).toBeGreaterThan(0);
  lock.release();
  expect(await log.append(large)).toBe(1);
});

/** Returns options that set both clocks of a process, in ms. */
const clockAt = (nowMs: () => number) => ({ now: nowMs, monotonicMs: nowMs });

test('appends remove old records from the front, but never the last one', async () => {
  let nowMs = 1_000_000;
  const log = await open({
    keepSeconds: 60,
    trimEverySeconds: 10,
    allowTrimmed: true,
    ...clockAt(() => nowMs),
  });
  const seen: [number, number][] = [];
  for (let n = 0; n < 20; n++) {
    nowMs += 10_000;
    await log.append(Buffer.from(`r${n}`));
    const first = (await readRecords(log, 1, { recordsMax: 1 }))[0]!.offset;
    seen.push([first, await log.end()]);
  }
  expect(seen.at(-1)).toEqual([13, 20]);
  nowMs += 1_000_000;
  await log.append(Buffer.from('last'));
  expect((await readRecords(log, 1)).map((record) => record.offset)).toEqual([20]);
  expect(await log.end()).toBe(21);
});

test('a clock that is days ahead removes nothing, however long, even in a process that starts with it', async () => {
  const dayMs = 86_400_000;
  let [nowMs, aheadMs] = [1_000_000, 0];
  const clocks = { now: () => nowMs + aheadMs, monotonicMs: () => nowMs };
  const options = { keepSeconds: 35 * 86_400, trimEverySeconds: 1, allowTrimmed: true, ...clocks };
  const logs = [await open(options)];
  const appendFor = async (minutes: number): Promise<void> => {
    for (let minute = 0; minute < minutes; minute++) {
      nowMs += 60_000;
      for (const log of logs) await log.append(Buffer.from('r'));
    }
  };
  await appendFor(3);
  aheadMs = 40 * dayMs;
  logs.push(await open(options));
  await appendFor(3);
  const [first] = await readRecords(logs[0]!, 1, { recordsMax: 1 });
  expect([first?.offset, await logs[0]!.end()]).toEqual([0, 9]);
});

test('trimming removes only a prefix, whatever the clock did', async () => {
  let nowMs = 2_000_000;
  const log = await open({
    keepSeconds: 60,
    trimEverySeconds: 1,
    allowTrimmed: true,
    ...clockAt(() => nowMs),
  });
  for (const at of [2_000_000, 1_000_000, 2_030_000]) {
    nowMs = at;
    await log.append(Buffer.from('r'));
  }
  expect((await readRecords(log, 3)).map((record) => record.offset)).toEqual([0, 1, 2]);
});

test('trimming is not done on every append', async () => {
  let nowMs = 1_000_000;
  const log = await open({
    keepSeconds: 1,
    trimEverySeconds: 10,
    allowTrimmed: true,
    ...clockAt(() => nowMs),
  });
  const firsts: number[] = [];
  for (let n = 0; n < 12; n++) {
    nowMs += 2000;
    await log.append(Buffer.from('r'));
    firsts.push((await readRecords(log, 1, { recordsMax: 1 }))[0]!.offset);
  }
  expect(new Set(firsts).size).toBe(3);
});

test('a long catch-up yields to the event loop', async () => {
  const log = await logOf(40);
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  let batches = 0;
  for await (const batch of log.tail({ from: 0, recordsMax: 1 })) {
    batches++;
    const until = performance.now() + 2;
    while (performance.now() < until);
    if (batch.nextOffset === 40) break;
  }
  clearInterval(timer);
  expect(batches).toBe(40);
  expect(turns).toBeGreaterThan(10);
});

test('a writer that awaits each append yields to the event loop, whether or not the log accepts them', async () => {
  const log = await open();
  const appends = new TurnCounter();
  const append = async (): Promise<void> => {
    appends.count();
    await log.append(Buffer.from('value'));
  };
  expect(await howItWaits(append)).toBe('waited');
  expect(appends.most).toBeLessThan(5);
  renameSync(folder, `${folder}-away`);
  expect(await howItWaits(() => append().catch(() => undefined))).toBe('waited');
  expect(appends.most).toBeLessThan(5);
  renameSync(`${folder}-away`, folder);
});

test('a tail that is stopped in the turn in which it reads ends at once', async () => {
  const log = await logOf(1);
  const stop = new AbortController();
  const next = log.tail({ from: 1, signal: stop.signal })[Symbol.asyncIterator]().next();
  stop.abort();
  expect(await promptly(next, 'the end of the tail')).toMatchObject({ done: true });
});
