/** A data folder of version 0.1: its outbox is upgraded, and what it had folded of all gateways keeps counting. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { makeEarlierOutbox, makeEarlierUsage } from '../../test/support/earlier-folder.ts';
import { takeOverEarlierUsage } from './earlier-usage.ts';
import { openOutbox } from './outbox.ts';

const period = new Date(Date.now() - 5 * 24 * 3600 * 1000).toISOString().slice(0, 10);
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-earlier-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function makeFolder(): void {
  makeEarlierOutbox({ folder, period });
  makeEarlierUsage({ folder, period });
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
