/**
 * Tests the times of records in an embedded log: they must ignore a single wrong clock, and follow a clock that all writers
 * share.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../runtime/sqlite.ts';
import { LogTime, logTimeSql } from './log-time.ts';

const minute = 60_000;
const hour = 60 * minute;
const start = Date.UTC(2026, 0, 1);

let db: Database;
let nowMs: number;
let time: LogTime;
beforeEach(() => {
  db = openDatabase(':memory:', { durability: 'normal', busyTimeoutMs: 0 });
  db.exec(logTimeSql);
  nowMs = 5000;
  time = new LogTime(db, () => nowMs);
});
afterEach(() => db.close());

/**
 * Appends a record after a delay, by a process whose wall clock is off by `offMs`. Returns the error of the record's time, in
 * ms.
 */
function append(afterMs: number, offMs = 0): number {
  nowMs += afterMs;
  const trueMs = start + nowMs;
  return time.next(trueMs + offMs) - trueMs;
}

test.each([-24 * hour, -hour, -10 * minute, 10 * minute, hour, 24 * hour])(
  'records of a process whose clock is off by %i ms keep the others’ time, however long that lasts',
  (offMs) => {
    expect(append(0)).toBe(0);
    for (let second = 0; second < 300; second++) expect([append(500, offMs), append(500)]).toEqual([0, 0]);
  },
);

test('a clock that every process has had for a minute is right', () => {
  append(0);
  for (let second = 0; second <= 60; second++) expect(append(1000, hour)).toBe(0);
  expect(append(1000, hour)).toBe(hour);
  expect(append(1000, hour)).toBe(hour);
});

test('a small difference is followed', () => {
  append(0);
  expect(append(1000, 3000)).toBe(3000);
  expect(append(1000)).toBe(0);
});

test('after a reboot or a minute without appends, the appending process’s clock is used', () => {
  append(0);
  nowMs = 10;
  expect(append(0, hour)).toBe(hour);
  expect(append(minute + 1)).toBe(0);
});
