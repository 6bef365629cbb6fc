/**
 * The contract that every adapter of the control log must fulfil, whatever its storage. An adapter's test calls
 * `controlLogContract` with a factory of rigs. Each test gets a new, empty log that several clients can open. The tests do
 * not depend on the adapter's speed, because they wait with deadlines and do not measure times.
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type ControlLog,
  type LogBatch,
  type LogRecord,
  LogTruncated,
} from '../../shared/log/core/control-log.ts';

/** A new, empty log for one test. */
export interface LogRig {
  /** Opens another client of this log. The suite closes it. */
  open(): Promise<ControlLog>;
  /** Removes the log after all clients have been closed. */
  dispose(): Promise<void>;
}

/** Longest time that "promptly" may take on a busy machine, in ms. */
const promptlyMs = 3000;

/** Reads records from offset `from` on until `count` have been read. */
export async function readRecords(
  log: ControlLog,
  count: number,
  options: { from?: number; recordsMax?: number; bytesMax?: number } = {},
): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  if (count === 0) return records;
  for await (const batch of log.tail({ from: 0, ...options })) {
    records.push(...batch.records);
    if (records.length >= count) break;
  }
  return records;
}

export async function promptly<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took over ${promptlyMs} ms`)), promptlyMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function texts(records: readonly LogRecord[]): string[] {
  return records.map((record) => record.value.toString('utf8'));
}

function numbered(count: number, prefix = 'r'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

async function appendAll(log: ControlLog, values: readonly string[]): Promise<number[]> {
  const offsets: number[] = [];
  for (const value of values) offsets.push(await log.append(Buffer.from(value)));
  return offsets;
}

/** Starts a tail that has delivered a record of another client and is now waiting for the next one. */
export async function waitingTail(
  log: ControlLog,
  other: ControlLog,
  signal?: AbortSignal,
): Promise<{ ended: Promise<void> }> {
  let delivered: () => void = () => undefined;
  const delivery = new Promise<void>((resolve) => {
    delivered = resolve;
  });
  const options = { from: await log.end(), ...(signal ? { signal } : {}) };
  const tail = follow(log, options, () => delivered());
  await other.append(Buffer.from('seen'));
  await promptly(delivery, 'delivery');
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  return tail;
}

/** Reads in the background and returns how the tail ended. */
function follow(
  log: ControlLog,
  options: { from: number; signal?: AbortSignal },
  onRecord: () => void = () => undefined,
) {
  const records: LogRecord[] = [];
  const ended = (async () => {
    for await (const batch of log.tail(options)) {
      records.push(...batch.records);
      if (batch.records.length > 0) onRecord();
    }
  })();
  ended.catch(() => undefined);
  return { records, ended };
}

export function controlLogContract(name: string, factory: () => Promise<LogRig>): void {
  describe(`${name}, as a control log`, () => {
    let rig: LogRig;
    let opened: ControlLog[];
    async function open(): Promise<ControlLog> {
      const log = await rig.open();
      opened.push(log);
      return log;
    }
    beforeEach(async () => {
      opened = [];
      rig = await factory();
    });
    afterEach(async () => {
      for (const log of opened) await log.close();
      await rig.dispose();
    });

    test('an empty log ends at 0', async () => {
      expect(await (await open()).end()).toBe(0);
    });

    test('records are read in the order of their appends, at offsets that grow', async () => {
      const log = await open();
      const values = numbered(50);
      const offsets = await appendAll(log, values);
      const records = await readRecords(log, 50);
      expect(texts(records)).toEqual(values);
      expect(records.map((record) => record.offset)).toEqual(offsets);
      expect(offsets).toEqual([...new Set(offsets)].sort((a, b) => a - b));
    });

    test('appends of one client made without waiting keep their order', async () => {
      const log = await open();
      const values = numbered(100);
      await Promise.all(values.map((value) => log.append(Buffer.from(value))));
      expect(texts(await readRecords(log, 100))).toEqual(values);
    });

    test('an acknowledged append is there after the log was closed and opened again', async () => {
      const first = await open();
      await appendAll(first, numbered(5));
      await first.close();
      const second = await open();
      expect(texts(await readRecords(second, 5))).toEqual(numbered(5));
      await second.append(Buffer.from('next'));
      expect(texts(await readRecords(second, 6)).at(-1)).toBe('next');
    });

    test('two clients that append at once lose nothing, double nothing, and every reader sees one order', async () => {
      const [a, b] = [await open(), await open()];
      await Promise.all([appendAll(a, numbered(40, 'a')), appendAll(b, numbered(40, 'b'))]);
      const seenByA = texts(await readRecords(a, 80));
      expect(seenByA.filter((text) => text.startsWith('a'))).toEqual(numbered(40, 'a'));
      expect(seenByA.filter((text) => text.startsWith('b'))).toEqual(numbered(40, 'b'));
      expect(texts(await readRecords(b, 80))).toEqual(seenByA);
    });

    test('a tail begins in the middle at a given offset', async () => {
      const log = await open();
      const offsets = await appendAll(log, numbered(10));
      const records = await readRecords(log, 4, { from: offsets[6]! });
      expect(texts(records)).toEqual(['r6', 'r7', 'r8', 'r9']);
    });

    test('reading on from nextOffset neither skips nor repeats a record', async () => {
      const log = await open();
      await appendAll(log, numbered(20));
      const seen: string[] = [];
      let from = 0;
      while (seen.length < 20) {
        for await (const batch of log.tail({ from, recordsMax: 3 })) {
          seen.push(...texts(batch.records));
          const last = batch.records.at(-1);
          if (last) expect(batch.nextOffset).toBeGreaterThan(last.offset);
          from = batch.nextOffset;
          if (batch.records.length > 0) break;
        }
      }
      expect(seen).toEqual(numbered(20));
    });

    test('a waiting tail wakes on an append of another client', async () => {
      const [reader, writer] = [await open(), await open()];
      await appendAll(writer, ['before']);
      const tail = reader.tail({ from: 0 })[Symbol.asyncIterator]();
      await nextRecords(tail);
      const woken = nextRecords(tail);
      await writer.append(Buffer.from('after'));
      expect(texts(await promptly(woken, 'waking'))).toEqual(['after']);
      await tail.return?.();
    });

    test('a tail opened before the first append sees it', async () => {
      const [reader, writer] = [await open(), await open()];
      const first = readRecords(reader, 1);
      await writer.append(Buffer.from('first'));
      expect(texts(await promptly(first, 'the first record'))).toEqual(['first']);
    });

    test('two tails of one client each see every record', async () => {
      const log = await open();
      const tails = [readRecords(log, 20), readRecords(log, 20)];
      await appendAll(log, numbered(20));
      for (const records of await promptly(Promise.all(tails), 'both tails'))
        expect(texts(records)).toEqual(numbered(20));
    });

    test('batches hold recordsMax records at most', async () => {
      const log = await open();
      await appendAll(log, numbered(10));
      let seen = 0;
      for await (const batch of log.tail({ from: 0, recordsMax: 3 })) {
        expect(batch.records.length).toBeLessThanOrEqual(3);
        seen += batch.records.length;
        if (seen === 10) break;
      }
    });

    test('batches hold bytesMax bytes at most, and a larger record comes alone', async () => {
      const log = await open();
      for (const bytes of [400, 400, 400, 5000, 400]) await log.append(Buffer.alloc(bytes));
      const sizes: number[][] = [];
      for await (const batch of log.tail({ from: 0, bytesMax: 1000 })) {
        if (batch.records.length > 0) sizes.push(batch.records.map((record) => record.value.length));
        if (sizes.flat().length === 5) break;
      }
      for (const batch of sizes)
        if (batch.length > 1) expect(batch.reduce((sum, bytes) => sum + bytes)).toBeLessThanOrEqual(1000);
      expect(sizes).toContainEqual([5000]);
    });

    test('end() counts every append acknowledged before it was asked, by any client', async () => {
      const [writer, reader] = [await open(), await open()];
      for (const value of numbered(20)) {
        const offset = await writer.append(Buffer.from(value));
        expect(await reader.end()).toBeGreaterThan(offset);
      }
    });

    test('a tail that reaches end() has delivered all there was', async () => {
      const log = await open();
      await appendAll(log, numbered(7));
      const end = await log.end();
      let seen = 0;
      for await (const batch of log.tail({ from: 0, recordsMax: 2 })) {
        seen += batch.records.length;
        if (batch.nextOffset >= end) break;
      }
      expect(seen).toBe(7);
    });

    test('a tail that asks for more than there is reports LogTruncated', async () => {
      const log = await open();
      await appendAll(log, numbered(3));
      const beyond = (await log.end()) + 5;
      await expect(promptly(readRecords(log, 1, { from: beyond }), 'the error')).rejects.toThrow(
        LogTruncated,
      );
    });

    test('abort ends a waiting tail promptly and without an error', async () => {
      const [log, other] = [await open(), await open()];
      const abort = new AbortController();
      const { ended } = await waitingTail(log, other, abort.signal);
      abort.abort();
      await promptly(ended, 'ending');
    });

    test('a tail whose signal is aborted already delivers nothing', async () => {
      const log = await open();
      await appendAll(log, ['one']);
      const { records, ended } = follow(log, { from: 0, signal: AbortSignal.abort() });
      await promptly(ended, 'ending');
      expect(records).toEqual([]);
    });

    test('abort between two batches ends the tail', async () => {
      const log = await open();
      await appendAll(log, numbered(10));
      const abort = new AbortController();
      let batches = 0;
      for await (const batch of log.tail({ from: 0, recordsMax: 1, signal: abort.signal })) {
        if (batch.records.length > 0) batches++;
        abort.abort();
      }
      expect(batches).toBeLessThanOrEqual(1);
    });

    test('close is prompt, may be repeated, and ends the tails', async () => {
      const [log, other] = [await open(), await open()];
      const { ended } = await waitingTail(log, other);
      await promptly(Promise.all([log.close(), log.close()]), 'closing');
      await promptly(ended, 'ending');
      await promptly(log.close(), 'closing again');
    });

    test('a closed log refuses appends and questions, and its tails are empty', async () => {
      const [log, other] = [await open(), await open()];
      await appendAll(log, ['one']);
      await log.close();
      await expect(log.append(Buffer.from('late'))).rejects.toThrow();
      await expect(log.end()).rejects.toThrow();
      const { records, ended } = follow(log, { from: 0 });
      await promptly(ended, 'ending');
      expect(records).toEqual([]);
      expect(texts(await readRecords(other, 1))).toEqual(['one']);
      expect(await other.end()).toBe(1);
    });

    test('the largest commit of 900 KB goes through unchanged', async () => {
      const log = await open();
      const value = randomBytes(900 * 1024);
      await log.append(value);
      await log.append(Buffer.from('small'));
      const records = await readRecords(log, 2);
      expect(records[0]!.value.equals(value)).toBe(true);
      expect(records[1]!.value.toString()).toBe('small');
    });

    test('a signature is kept with its record, and no signature stays none', async () => {
      const log = await open();
      const signature = randomBytes(64);
      await log.append(Buffer.from('signed'), signature);
      await log.append(Buffer.from('unsigned'));
      await log.append(Buffer.from('unsigned too'), null);
      const records = await readRecords(log, 3);
      expect(records.map((record) => record.signature)).toEqual([signature, null, null]);
    });

    test.each([
      ['every byte there is', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
      ['bytes that are not UTF-8', Buffer.from([0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80])],
      ['zeros', Buffer.alloc(17)],
      ['line ends', Buffer.from('a\r\nb\n\0c')],
      ['nothing', Buffer.alloc(0)],
    ])('a record of %s comes back as it was', async (_, value) => {
      const log = await open();
      await log.append(value);
      await log.append(Buffer.from('end'));
      const [record] = await readRecords(log, 2);
      expect(record!.value.equals(value)).toBe(true);
    });

    test('what was appended is what was given, though its buffer is used again at once', async () => {
      const log = await open();
      const buffer = Buffer.from('given');
      const appended = log.append(buffer);
      buffer.fill('x');
      await appended;
      expect(texts(await readRecords(log, 1))).toEqual(['given']);
    });
  });
}

/** Reads until a batch is not empty and returns its records. */
async function nextRecords(tail: AsyncIterator<LogBatch>): Promise<readonly LogRecord[]> {
  for (;;) {
    const { done, value } = await tail.next();
    if (done) return [];
    if (value.records.length > 0) return value.records;
  }
}
