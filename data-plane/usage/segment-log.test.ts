/** Tests that cut, damaged or full segment logs keep all intact groups, in order and within their bounds. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { type RecordedRequest, recordedNames } from '../../schemas/records/request-record.ts';
import { runs } from '../../test/support/budget.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { groupHeading, parseId, parseRequests, RecordGroupBuffer } from '../records/record-group.ts';
import type { RecordGroup } from './segment-frame.ts';
import { type SegmentBounds, SegmentLog } from './segment-log.ts';

let folder: string;
beforeEach(() => {
  folder = folderOfTest('segments');
});

const startMs = 1_700_000_000_000;
const reqOf = (n: number): string => `req_${n.toString(16).padStart(32, '0')}`;
function logOf(bounds: Partial<SegmentBounds> = {}): SegmentLog {
  const log = new SegmentLog(folder, { heading: groupHeading, ...bounds });
  onTestFinished(() => log.close());
  return log;
}
function groupOf(...requests: RecordedRequest[]): RecordGroup {
  const buffer = new RecordGroupBuffer(requests.length);
  for (const each of requests) expect(buffer.add(each)).toBe(true);
  return buffer.take();
}
/** Returns a group of consecutive request numbers, each with a text that cannot be compressed. */
const group = (from: number, count: number, atMs = startMs, more = 0): RecordGroup =>
  groupOf(
    ...Array.from({ length: count }, (_, n) => [reqOf(from + n), atMs, randomBytes(more).toString('hex')]),
  );
async function requests(log: SegmentLog, sinceMs = 0): Promise<unknown[][]> {
  const found: unknown[][] = [];
  for await (const read of log.since(sinceMs)) found.push(...parseRequests(read));
  return found;
}
const idsIn = async (log: SegmentLog, sinceMs = 0) => (await requests(log, sinceMs)).map(([id]) => id);
async function find(log: SegmentLog, req: string): Promise<unknown[] | undefined> {
  const found = await log.find(parseId(req) ?? Buffer.alloc(0));
  return found && parseRequests(found.group)[found.at];
}
const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => reqOf(n));
const files = (): string[] => readdirSync(folder).sort();

test.each([1, 3, 200])('a record in a group of %d is found by its id, unchanged', async (count) => {
  const log = logOf();
  const more = (n: number): RecordedRequest => [reqOf(n), startMs + n, 'acme', true, 0.5, 'é"', [1, 2]];
  const all = Array.from({ length: 3 * count }, (_, n) => more(n));
  for (let from = 0; from < all.length; from += count)
    await log.append(groupOf(...all.slice(from, from + count)), startMs);
  for (const one of all) expect(await find(log, String(one[0]))).toEqual(one);
  expect(await find(log, reqOf(99_999))).toBeUndefined();
  expect(await requests(log)).toEqual(all);
});

test('an id is not found across two adjacent ids', async () => {
  const log = logOf();
  const [one, two] = ['0123456789abcdef'.repeat(2), 'fedcba9876543210'.repeat(2)];
  await log.append(groupOf([`req_${one}`, startMs], [`req_${two}`, startMs]), startMs);
  expect(await log.find(Buffer.from(one.slice(16) + two.slice(0, 16), 'hex'))).toBeUndefined();
  expect(await find(log, `req_${two}`)).toEqual([`req_${two}`, startMs]);
});

test('the next process reads what an unfinished one wrote, and positions continue', async () => {
  await logOf().append(group(0, 3), startMs);
  await logOf().append(group(3, 2), startMs);
  const third = logOf();
  expect(await idsIn(third)).toEqual(upTo(5));
  await third.append(group(5, 1), startMs);
  const positions: number[] = [];
  for await (const { position } of third.since(0)) positions.push(position);
  expect(positions).toEqual([0, 3, 5]);
});

test('a truncated or damaged group is lost alone, without the others', async () => {
  const log = logOf();
  for (let n = 0; n < 4; n++) await log.append(group(n, 1, startMs, 300), startMs);
  const [path] = files().map((name) => join(folder, name)) as [string];
  const bytes = readFileSync(path);
  // Damage one byte of the second group and cut off the end of the last one.
  bytes.writeUInt8(255 - bytes.readUInt8(Math.floor(bytes.length * 0.4)), Math.floor(bytes.length * 0.4));
  writeFileSync(path, bytes);
  truncateSync(path, bytes.length - 5);
  const next = logOf();
  expect(await idsIn(next)).toEqual([reqOf(0), reqOf(2)]);
  expect(await find(next, reqOf(1))).toBeUndefined();
  expect((await find(next, reqOf(2)))?.[0]).toBe(reqOf(2));
  await next.append(group(4, 1), startMs);
  expect(await idsIn(next)).toEqual([reqOf(0), reqOf(2), reqOf(4)]);
});

test('a segment with arbitrary bytes is read to its end', async () => {
  const log = logOf();
  await log.append(group(0, 2), startMs);
  const [name] = files() as [string];
  const whole = readFileSync(join(folder, name));
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.nat(whole.length), async (junk, cut) => {
      const torn = Buffer.concat([whole.subarray(0, cut), junk, whole]);
      writeFileSync(join(folder, name), torn);
      const ids = await idsIn(logOf());
      // The truncated group's head may claim the bytes of the next group, but then its checksum does not match.
      expect(ids.slice(-2)).toEqual(upTo(2));
    }),
    { numRuns: runs({ fast: 50, full: 500 }) },
  );
});

test('groups before the requested time are left out, and groups added meanwhile are read', async () => {
  const log = logOf({ segmentBytes: 500 });
  for (let n = 0; n < 6; n++) await log.append(group(n, 1, startMs + n, 100), startMs + n);
  expect(await idsIn(log, startMs + 4)).toEqual([reqOf(4), reqOf(5)]);
  const reading = log.since(startMs + 4);
  await reading.next();
  await log.append(group(6, 1, startMs + 6, 400), startMs + 6);
  const rest: unknown[] = [];
  for await (const read of reading) rest.push(...parseRequests(read).map(([id]) => id));
  expect(rest).toEqual([reqOf(5), reqOf(6)]);
});

test('groups added to the segment being read are not skipped in favour of later ones', async () => {
  const log = logOf({ segmentBytes: 1000 });
  await log.append(group(0, 1), startMs);
  const reading = log.since(0);
  await reading.next();
  for (let n = 1; n < 20; n++) await log.append(group(n, 1), startMs);
  const rest: unknown[] = [];
  for await (const read of reading) rest.push(...parseRequests(read).map(([id]) => id));
  expect(files().length).toBeGreaterThan(1);
  expect(rest).toEqual(upTo(20).slice(1));
});

test('writing into a removed segment is reported as failed', async () => {
  const log = logOf();
  await log.append(group(0, 1), startMs);
  rmSync(folder, { recursive: true });
  await expect(log.append(group(1, 1), startMs + 1000)).rejects.toThrow('removed');
  await log.append(group(2, 1), startMs + 1000);
  expect(await idsIn(log)).toEqual([reqOf(2)]);
});

test('the log stays within its size and age, and keeps the newest', async () => {
  const log = logOf({ bytesMax: 20_000, segmentBytes: 4_000, ageMsMax: 24_000 });
  for (let n = 0; n < 100; n++) {
    await log.append(group(n, 1, startMs, 400), startMs);
    expect(log.bytes).toBeLessThan(20_000 + 4_000);
  }
  const kept = await idsIn(log);
  expect(kept).toEqual(upTo(100).slice(-kept.length));
  expect(kept.length).toBeGreaterThan(15);
  expect(files().reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)).toBe(log.bytes);
  await log.append(group(100, 1), startMs + 23_000);
  // Segments may have been removed because of their size, but none because of its age.
  expect((await idsIn(log)).length).toBeGreaterThan(kept.length / 2);
  await log.append(group(101, 1), startMs + 25_000);
  expect(await idsIn(log)).toEqual([reqOf(100), reqOf(101)]);
});

test('a failed write loses only its group, and the next one begins another segment', async () => {
  const log = logOf();
  await log.append(group(0, 1), startMs);
  await log.close();
  rmSync(folder, { recursive: true });
  writeFileSync(folder, 'no folder');
  await expect(log.append(group(1, 1), startMs)).rejects.toThrow();
  rmSync(folder);
  await log.append(group(2, 1), startMs);
  await log.append(group(3, 1), startMs);
  expect(await idsIn(log)).toEqual([reqOf(2), reqOf(3)]);
});

test('a write costs the same however many records the log contains', async () => {
  const log = logOf();
  const cpu = async (): Promise<number> => {
    const before = process.cpuUsage();
    for (let n = 0; n < 100; n++) await log.append(group(n, 1), startMs);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  await cpu();
  const small = await cpu();
  for (let n = 0; n < 2000; n++) await log.append(group(n, 10), startMs);
  // If a write had to read all records, it would take about fifty times as long.
  expect(await cpu()).toBeLessThan(10 * small);
});

test('an entry named like a segment that is not one is removed, and nothing waits for it', async () => {
  const named = (first: number): string => join(folder, `${String(first).padStart(16, '0')}.records`);
  execFileSync('mkfifo', [named(0)]);
  symlinkSync('/dev/zero', named(1));
  mkdirSync(join(named(2), 'inner'), { recursive: true });
  writeFileSync(named(3), '');
  truncateSync(named(3), 4 * 1024 ** 3);
  const log = logOf();
  await log.append(group(0, 3), startMs);
  expect(await idsIn(log)).toEqual(upTo(3));
  expect(files()).toHaveLength(1);
});

test('groups written by a build with other fields are read by field name', async () => {
  const [id, ...others] = recordedNames;
  const names = [id, 'unheard of', ...others.toReversed()];
  const log = new SegmentLog(folder, { heading: JSON.stringify(names) });
  onTestFinished(() => log.close());
  const values: Readonly<Record<string, unknown>> = {
    ...{ request: reqOf(7), atMs: startMs, status: 200, model: 'm', 'unheard of': 1 },
  };
  const written = names.map((name = '') => values[name]) as RecordedRequest;
  // The log stores the time of the latest record separately from the records.
  const taken = groupOf(written);
  await log.append({ ...taken, lastMs: startMs }, startMs);
  const found = (await requests(logOf()))[0] ?? [];
  expect(Object.fromEntries(recordedNames.map((name, at) => [name, found[at] ?? undefined]))).toEqual(
    Object.fromEntries(recordedNames.map((name) => [name, values[name]])),
  );
});
