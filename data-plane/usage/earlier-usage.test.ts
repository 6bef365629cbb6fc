/** A data folder of version 0.1: its outbox is upgraded, and what it had folded of all gateways keeps counting. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { takeOverEarlierUsage } from './earlier-usage.ts';
import { openOutbox } from './outbox.ts';

const period = new Date(Date.now() - 5 * 24 * 3600 * 1000).toISOString().slice(0, 10);
const incarnation = 'aaaaaaaa-0000-4000-8000-000000000000';
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-earlier-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function row(n: number, more: object = {}): string {
  const at = '2026-11-21T10:00:00.000Z';
  const counted = {
    draw: 'pool',
    model: 'echo-small',
    promptTokens: 3,
    completionTokens: 4,
    requestId: `r-${n}`,
  };
  return JSON.stringify({ v: 1, incarnation, n, at, organisation: 'acme', period, ...counted, ...more });
}

/** As 0.1.0 made it: three rows, of which the first is folded. */
function makeFolder(): void {
  const outbox = openDatabase(join(folder, 'outbox.db'), { durability: 'normal' });
  outbox.exec(`
CREATE TABLE incarnation (ordinal INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE row (
  ordinal INTEGER NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (ordinal, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE shipment (
  id INTEGER PRIMARY KEY, ordinal INTEGER NOT NULL, upto_n INTEGER NOT NULL, at_ms INTEGER NOT NULL
) STRICT;
PRAGMA user_version = 1;
INSERT INTO incarnation VALUES (1, '${incarnation}');
INSERT INTO shipment VALUES (1, 1, 1, ${Date.now()});`);
  const insert = outbox.prepare('INSERT INTO row VALUES (1, ?, ?)');
  for (const [n, more] of [{}, {}, { draw: 'own' }].entries()) insert.run(n + 1, row(n + 1, more));
  outbox.close();
  const usage = openDatabase(join(folder, 'usage.db'), { durability: 'normal' });
  usage.exec(`
CREATE TABLE position (
  partition INTEGER NOT NULL, next_offset INTEGER NOT NULL, trimmed INTEGER NOT NULL, PRIMARY KEY (partition)
) STRICT;
CREATE TABLE incarnation (id TEXT NOT NULL, n INTEGER NOT NULL, hash TEXT, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE TABLE parked (
  incarnation TEXT NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (incarnation, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE total (
  organisation TEXT NOT NULL, period TEXT NOT NULL, draw TEXT NOT NULL, model TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, requests INTEGER NOT NULL,
  PRIMARY KEY (organisation, period, draw, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE visitor (
  id TEXT NOT NULL, turns INTEGER NOT NULL, last_at INTEGER NOT NULL, PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX visitor_by_last ON visitor (last_at);
CREATE TABLE request (
  id INTEGER NOT NULL, organisation TEXT, period TEXT, body TEXT NOT NULL, PRIMARY KEY (id)
) STRICT;
CREATE INDEX request_by_organisation ON request (organisation, period);
PRAGMA user_version = 1;
INSERT INTO incarnation VALUES ('${incarnation}', 1, NULL);
INSERT INTO total VALUES ('acme', '${period}', 'pool', 'echo-small', 100, 200, 9);
INSERT INTO total VALUES ('acme', '${period}', 'own', 'echo-small', 1000, 2000, 9);
INSERT INTO total VALUES ('acme', '2020-01-01', 'pool', 'echo-small', 1, 2, 9);`);
  usage.close();
}

function takeOver(): { earlier: ReadonlyMap<string, number>; unshipped: number; errors: string[] } {
  const errors: string[] = [];
  const report = (_fields: object, text: string) => void errors.push(text);
  const logger = { warn: report, error: report, fatal: report };
  const outbox = openOutbox({ path: join(folder, 'outbox.db') });
  const copy = openCounterCopy(join(folder, 'counters.db'));
  takeOverEarlierUsage(folder, { outbox, copy, logger });
  const result = { earlier: copy.earlier(Date.now()), unshipped: outbox.unshipped, errors };
  outbox.close();
  copy.close();
  return result;
}

test('what 0.1 had folded counts with its rows that were not folded yet, once, also after another start', () => {
  makeFolder();
  const expected = { earlier: new Map([[`acme ${period}`, 307]]), unshipped: 2, errors: [] };
  expect(takeOver()).toEqual(expected);
  expect(existsSync(join(folder, 'usage.db'))).toBe(false);
  expect(takeOver()).toEqual(expected);
});

test('a damaged usage.db of 0.1 is reported, and the gateway starts', () => {
  makeFolder();
  writeFileSync(join(folder, 'usage.db'), 'x'.repeat(8192));
  const { earlier, errors } = takeOver();
  expect(earlier).toEqual(new Map());
  expect(errors).toEqual([expect.stringContaining('version 0.1')]);
});
