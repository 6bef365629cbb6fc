import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { openDatabase, walBytesMax } from '../../shared/runtime/sqlite.ts';
import { usageMac } from '../../test/support/usage-mac.ts';
import { checkUsage } from './check-usage.ts';
import { UsageFile } from './usage-file.ts';
import { openUsageStore, type UsageStoreOptions } from './usage-store.ts';

const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
const period = '2026-11-01';

const folders: string[] = [];
afterEach(() => {
  for (const each of folders.splice(0)) rmSync(each, { recursive: true });
});

const row = (n: number, more: object = {}) => ({
  ...{ v: 1, incarnation, n, at: '2026-11-21T10:00:00.000Z', organisation: 'acme', period, draw: 'pool' },
  ...{ model: 'echo-small', promptTokens: 1000 + n, completionTokens: 1, key: 'key-1', requestId: `r-${n}` },
  ...more,
});
const visitor = { organisation: null, period: null, key: undefined, visitor: 'v1' };

/** Writes a file with rows of two organisations and of a visitor, and one parked row. */
function usageFile(): string {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-usage-'));
  folders.push(dir);
  const path = join(dir, 'usage.db');
  const rows = Array.from({ length: 60 }, (_, at) =>
    row(at + 1, at % 3 === 0 ? { organisation: 'other' } : at % 7 === 0 ? visitor : {}),
  );
  const store = openUsageStore(path, { mac: usageMac, keepRows: true });
  const record = (offset: number, values: object[]) => {
    const value = Buffer.from(JSON.stringify(values));
    return { offset, value, signature: usageMac.of(value) };
  };
  store.begin(0);
  store.apply(0, [record(0, rows), record(1, [row(62)])]);
  store.close();
  return path;
}

function read(path: string, options: UsageStoreOptions = {}) {
  const store = openUsageStore(path, { mac: usageMac, keepRows: true, ...options });
  try {
    return store.requests({ limit: 1000 }).map(({ id }) => id);
  } finally {
    store.close();
  }
}

test('an intact file has no faults', () => {
  expect(checkUsage(usageFile())).toEqual([]);
});

test.each([
  ['a changed beginning', '{', 'z'],
  ['a changed end', '}', '|'],
  ['a changed field name', '"at"', '"`t"'],
  ['a changed time', '2026-11-21T', '2026-11-21U'],
  ['a changed number', '"promptTokens":1', '"promptTokens":q'],
  ['a changed sign', '"promptTokens":10', '"promptTokens":1.'],
])('an unreadable row is skipped and named, and later rows are read: %s', (_, text, flipped) => {
  const path = usageFile();
  const db = openDatabase(path, { durability: 'normal' });
  db.prepare('UPDATE request SET body = replace(body, ?, ?) WHERE id = 20').run(text, flipped);
  db.close();
  const named: string[] = [];
  const ids = read(path, { onUnreadable: (table, key) => named.push(`${table} ${key}`) });
  expect(ids).toHaveLength(59);
  expect(named).toEqual(['request 20']);
  expect(checkUsage(path).map(({ object }) => object)).toEqual(named);
});

test('a short page means the end, even with unreadable rows', () => {
  const path = usageFile();
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(`UPDATE request SET body = 'x' WHERE id BETWEEN 11 AND 29`);
  db.close();
  const store = openUsageStore(path, { mac: usageMac, keepRows: true });
  const ids: number[] = [];
  for (;;) {
    const page = store.requests({ afterId: ids.at(-1) ?? 0, limit: 10 });
    ids.push(...page.map(({ id }) => id));
    if (page.length < 10) break;
  }
  store.close();
  expect(ids).toEqual([...Array(60).keys()].map((at) => at + 1).filter((id) => id < 11 || id > 29));
});

test('an unreadable parked row does not hold up later ones', () => {
  const path = usageFile();
  const db = openDatabase(path, { durability: 'normal' });
  expect(db.prepare(`UPDATE parked SET body = '{'`).run().changes).toBe(1);
  db.close();
  const named: string[] = [];
  const onUnreadable = (table: string, key: string) => named.push(`${table} ${key}`);
  const store = openUsageStore(path, { mac: usageMac, keepRows: true, onUnreadable });
  const value = Buffer.from(JSON.stringify([row(61), row(63)]));
  store.apply(0, [{ offset: 2, value, signature: usageMac.of(value) }]);
  expect(store.counts).toMatchObject({ applied: 2, unread: 1 });
  expect(store.highWater(incarnation)).toBe(63);
  expect(new Set(named)).toEqual(new Set([`parked ${incarnation} 62`]));
  store.close();
});

const ofTotal = `in the period from ${period} the total of pool echo-small is not the sum of its hours`;
const ofDay = 'on 2026-11-21 the sum of pool echo-smal';

test.each<[what: string, sql: string, text?: string]>([
  ['a number in a row', `UPDATE request SET body = replace(body, '1002', '1003')`],
  ['a number in a total', `UPDATE total SET requests = requests + 8 WHERE organisation = 'acme'`, ofTotal],
  ['an hour’s sum', `UPDATE hour_sum SET prompt_tokens = 7 WHERE organisation = 'acme'`, ofTotal],
  ['a name in a row', `UPDATE request SET body = replace(body, 'echo-small', 'echo-smalm') WHERE id = 2`],
  ['a missing row', 'DELETE FROM request WHERE id = 2'],
  ['a missing total', `DELETE FROM total WHERE organisation = 'acme'`, ofTotal],
])('sums that do not match their rows are found: %s', (_, sql, text = ofDay) => {
  const path = usageFile();
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(sql);
  db.close();
  const faults = checkUsage(path);
  expect(faults.map(({ object }) => object)).toContain('acme');
  expect(faults[0]?.text).toContain(text);
});

test('any flipped bit in a file leads a check or reader only to a damage error', () => {
  const step = 197;
  const whole = usageFile();
  const { length } = readFileSync(whole);
  let found = 0;
  for (let at = 100; at < length; at += step) {
    const path = join(folders[0]!, `flipped-${at}.db`);
    copyFileSync(whole, path);
    const bytes = readFileSync(path);
    bytes[at]! ^= 1 << (at % 8);
    writeFileSync(path, bytes);
    try {
      found += Math.min(checkUsage(path).length, 1);
      read(path);
    } catch (error) {
      expect(String((error as { code?: string }).code ?? (error as Error).name)).toMatch(
        /^SQLITE_CORRUPT|DatabaseCorrupt|OtherFormat/,
      );
    }
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
  }
  expect(found).toBeGreaterThan(length / step / 20);
});

test.each([
  ['made once it is short again', 0.1, true],
  ['made after six hours in any case', 6, false],
])('a check is postponed while the write-ahead log is long, and %s', async (_, hours, isRemoved) => {
  const path = usageFile();
  const lines: unknown[] = [];
  const note = (fields: object): void => void lines.push(fields);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  try {
    const file = new UsageFile(path, { warn: note, error: note, fatal: note });
    writeFileSync(`${path}-wal`, Buffer.alloc(walBytesMax + 1));
    file.start();
    await vi.advanceTimersByTimeAsync(hours * 3_600_000);
    expect(file.state).toEqual({ faults: [] });
    if (isRemoved) rmSync(`${path}-wal`);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(file.state).toEqual({ checkedMsAgo: expect.any(Number), faults: [] });
    expect(lines).toEqual([]);
    await file.close();
  } finally {
    vi.useRealTimers();
  }
});
