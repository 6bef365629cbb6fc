/**
 * Tests completed requests in day files: when rows move there, what is read, and how a crash between the steps is repaired.
 */
import { cpSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { dayMs } from '../../schemas/durations.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { usageMac } from '../../test/support/usage-mac.ts';
import { checkUsage } from './check-usage.ts';
import { moveRows } from './move-rows.ts';
import { RowMover } from './row-mover.ts';
import { openUsageStore, type UsageStore } from './usage-store.ts';

const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
const days = ['2026-11-19', '2026-11-20', '2026-11-21'] as const;
let folder: string;
let path: string;
const open: UsageStore[] = [];
const lines: object[] = [];
const unreadable: string[] = [];

beforeEach(() => {
  folder = folderOfTest('kept');
  path = join(folder, 'usage.db');
  vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-11-22T12:00:00Z') });
  lines.length = 0;
  unreadable.length = 0;
});
afterEach(() => {
  for (const each of open.splice(0)) each.close();
  vi.useRealTimers();
});

function row(n: number, more: object = {}): object {
  const day = days[Math.floor((n - 1) / 10) % days.length];
  return {
    ...{ v: 1, incarnation, n, at: `${day}T10:00:00.000Z`, period: '2026-11-01', draw: 'pool' },
    ...{
      organisation: n % 3 === 0 ? 'birch' : 'acme',
      model: 'echo-small',
      key: n % 3 === 0 ? 'key-of-birch' : 'key-of-acme',
    },
    ...{ promptTokens: n, completionTokens: 1, requestId: `r-${n}` },
    ...more,
  };
}

function openStore(): UsageStore {
  const onUnreadable = (table: string, key: string): void => void unreadable.push(`${table} ${key}`);
  const store = openUsageStore(path, { keepRows: true, mac: usageMac, onUnreadable });
  open.push(store);
  return store;
}
function close(store: UsageStore): void {
  open.splice(open.indexOf(store), 1);
  store.close();
}
let offset = 0;
function fold(store: UsageStore, ...rows: object[]): void {
  const value = Buffer.from(JSON.stringify(rows));
  store.apply(0, [{ offset: offset++, value, signature: usageMac.of(value) }]);
}
function upTo(count: number, from = 1): number[] {
  return Array.from({ length: count - from + 1 }, (_, at) => at + from);
}
function mover(store: UsageStore, keepDays = 35, monotonicMs?: () => number): RowMover {
  const say = (fields: object) => lines.push(fields);
  const logger = { info: say, warn: say, error: say, fatal: say };
  return new RowMover({ rows: store.rows, path, keepDays, logger, ...(monotonicMs && { monotonicMs }) });
}
function read(store: UsageStore, query: object = {}): number[] {
  const found: number[] = [];
  for (let afterId = 0; ; ) {
    const page = store.requests({ ...query, afterId, limit: 7 });
    found.push(...page.map(({ row: { n } }) => n));
    if (page.length < 7) return found;
    afterId = page.at(-1)?.id ?? 0;
  }
}
function waiting(): number {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    return Number(
      db.prepare('SELECT count(*) FROM request WHERE id > (SELECT moved FROM kept)').pluck().get(),
    );
  } finally {
    db.close();
  }
}

test('rows are moved into day files and read from there in order, together with later rows', async () => {
  const store = openStore();
  fold(store, ...upTo(60).map((n) => row(n)));
  const moving = mover(store);
  expect(await moving.move()).toBe(false);
  expect(readdirSync(join(folder, 'usage-rows')).filter((name) => name.endsWith('.db'))).toEqual(
    days.map((day) => `${day}.db`),
  );
  expect(waiting()).toBe(0);
  fold(store, ...upTo(75, 61).map((n) => row(n)));
  expect(read(store)).toEqual(upTo(75));
  await moving.move();
  expect(read(store)).toEqual(upTo(75));
  expect(read(store, { organisation: 'birch', period: '2026-11-01' })).toEqual(
    upTo(75).filter((n) => n % 3 === 0),
  );
  expect(store.totals('acme', '2026-11-01').requests).toBe(50);
  expect(checkUsage(path)).toEqual([]);
});

test('only the files of the requested days are read', async () => {
  const store = openStore();
  fold(store, ...upTo(60).map((n) => row(n)));
  await mover(store).move();
  for (const day of [days[0], days[2]])
    writeFileSync(join(folder, 'usage-rows', `${day}.db`), 'x'.repeat(5000));
  const ofDay = [...upTo(20, 11), ...upTo(50, 41)];
  expect(read(store, { from: days[1], to: days[2] })).toEqual(ofDay);
  expect(unreadable).toEqual([]);
  expect(read(store)).toEqual(ofDay);
  expect(new Set(unreadable)).toEqual(new Set([`day ${days[0]}`, `day ${days[2]}`]));
  expect(checkUsage(path).map(({ object }) => object)).toEqual([`day ${days[0]}`, `day ${days[2]}`]);
});

test('files older than the retention are removed but their sums stay, and late rows for them are dropped', async () => {
  const store = openStore();
  fold(store, ...upTo(30).map((n) => row(n)));
  await mover(store).move();
  const later = mover(store, 1);
  await later.move();
  expect(store.rows.days).toEqual(days.slice(1));
  expect(store.completeFrom).toBe(days[1]);
  expect(lines).toEqual([{ day: days[0], rows: 10 }]);
  expect(readdirSync(join(folder, 'usage-rows')).some((name) => name.startsWith(days[0]))).toBe(false);
  fold(store, row(31, { at: `${days[0]}T12:00:00.000Z` }), row(32, { at: `${days[1]}T12:00:00.000Z` }));
  await later.move();
  expect(read(store)).toEqual([...upTo(30, 11), 32]);
  expect(store.totals('acme', '2026-11-01').requests + store.totals('birch', '2026-11-01').requests).toBe(32);
  expect(checkUsage(path)).toEqual([]);
});

test('a leap of this machine’s clock, of the log’s or of both removes nothing', async () => {
  const store = openStore();
  fold(store, ...upTo(30).map((n) => row(n)));
  let nowMs = 0;
  const moving = mover(store, 2, () => nowMs);
  await moving.move();
  const leap = Date.parse('2027-01-01T12:00:00Z');
  vi.setSystemTime(leap);
  await moving.move();
  vi.setSystemTime(Date.parse('2026-11-22T12:00:00Z'));
  fold(store, row(31, { at: '2027-01-01T12:00:00.000Z' }));
  await moving.move();
  await mover(store, 3).move();
  vi.setSystemTime(leap);
  await moving.move();
  expect([read(store), lines]).toEqual([upTo(31), []]);
  nowMs = dayMs;
  await moving.move();
  expect(store.rows.days).toEqual([...days.slice(1), '2027-01-01']);
});

test('the last rows of an idle service are removed when their time is over', async () => {
  const store = openStore();
  fold(store, ...upTo(30).map((n) => row(n)));
  let nowMs = 0;
  const moving = mover(store, 2, () => nowMs);
  await moving.move();
  await moving.move();
  nowMs = 5 * dayMs;
  vi.setSystemTime(Date.now() + nowMs);
  await moving.move();
  expect([read(store), store.rows.days]).toEqual([[], []]);
});

test('rows that a process moved without recording it are written again, once', async () => {
  const store = openStore();
  fold(store, ...upTo(25).map((n) => row(n)));
  await mover(store).move();
  fold(store, ...upTo(60, 26).map((n) => row(n)));
  // Simulates a process that ends before it records the result of the move.
  moveRows({ path, isFirst: true });
  expect(read(store)).toEqual(upTo(60));
  close(store);
  const again = openStore();
  await mover(again).move();
  expect([read(again), waiting()]).toEqual([upTo(60), 0]);
  expect(checkUsage(path)).toEqual([]);
});

test('if a power cut undoes the last rows of usage.db, their moved copies do not count', async () => {
  const store = openStore();
  fold(store, ...upTo(20).map((n) => row(n)));
  await mover(store).move();
  close(store);
  cpSync(path, join(folder, 'former.db'));
  const lost = openStore();
  fold(lost, ...upTo(40, 21).map((n) => row(n)));
  await mover(lost).move();
  close(lost);
  cpSync(join(folder, 'former.db'), path);
  const again = openStore();
  // The rows now arrive in another order than before.
  fold(again, row(21, { at: `${days[0]}T11:00:00.000Z` }), row(22));
  await mover(again).move();
  expect(read(again)).toEqual(upTo(22));
  expect(checkUsage(path)).toEqual([]);
});

test('files of another usage.db are renamed, and the check reports what is missing', async () => {
  const store = openStore();
  fold(store, ...upTo(10).map((n) => row(n)));
  await mover(store).move();
  close(store);
  rmSync(path);
  offset = 0;
  const other = openStore();
  fold(other, ...upTo(10).map((n) => row(n)));
  await mover(other).move();
  expect(read(other)).toEqual(upTo(10));
  expect(readdirSync(join(folder, 'usage-rows'))).toContain(`${days[0]}.db.aside`);
  close(other);
  rmSync(join(folder, 'usage-rows'), { recursive: true });
  expect(checkUsage(path)).toEqual([expect.objectContaining({ object: `day ${days[0]}` })]);
});

test('a changed and a missing row of a file are both found by day', async () => {
  const store = openStore();
  fold(store, ...upTo(30).map((n) => row(n)));
  await mover(store).move();
  const db = openDatabase(join(folder, 'usage-rows', `${days[1]}.db`), { durability: 'normal' });
  db.exec('DELETE FROM request WHERE id = 12');
  db.exec(`UPDATE request SET body = 'x' WHERE id = 15`);
  db.close();
  expect(checkUsage(path).map(({ object }) => object)).toEqual(['request 15']);
  expect(read(store)).toEqual(upTo(30).filter((n) => n !== 12 && n !== 15));
  expect(unreadable).toEqual(['request 15']);
  const repaired = openDatabase(join(folder, 'usage-rows', `${days[1]}.db`), { durability: 'normal' });
  repaired.prepare('UPDATE request SET body = ? WHERE id = 15').run(JSON.stringify(row(15)));
  repaired.close();
  expect(checkUsage(path)).toEqual([
    {
      object: 'birch',
      text: `on ${days[1]} the sum of pool echo-small differs from its rows`,
      differs: { day: days[1], counted: 3, rows: 2 },
    },
  ]);
});

test('disk space of many moved rows is released at the next start', async () => {
  const store = openStore();
  for (let group = 0; group < 90; group++)
    fold(
      store,
      ...upTo((group + 1) * 500, group * 500 + 1).map((n) =>
        row(n, { requestId: `r-${n}-${'x'.repeat(80)}` }),
      ),
    );
  const moving = mover(store);
  while (await moving.move());
  const before = statSync(path).size;
  close(store);
  const after = openStore();
  expect(statSync(path).size).toBeLessThan(before / 10);
  expect(read(after)).toHaveLength(45_000);
}, 120_000);
