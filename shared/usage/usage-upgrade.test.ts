/** The usage.db of a control plane of version 0.1: upgraded once, with its totals, its position and the rows kept for export. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { earlierIncarnation, makeEarlierUsage } from '../../test/support/earlier-folder.ts';
import { openDatabase } from '../runtime/sqlite.ts';
import { openUsageStore } from './usage-store.ts';

const period = '2026-11-01';

function record(offset: number, n: number, more: object = {}) {
  const owner = { organisation: 'acme', period, draw: 'pool', model: 'echo-small', requestId: `r-${n}` };
  const at = '2026-11-21T10:00:00.000Z';
  const row = {
    v: 1,
    incarnation: earlierIncarnation,
    n,
    at,
    ...owner,
    promptTokens: 3,
    completionTokens: 4,
  };
  return { offset, value: Buffer.from(JSON.stringify([{ ...row, ...more }])), signature: null };
}

test('what 0.1 had folded is kept, counts as rows without a replica, and folds on where it stopped', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-usage-upgrade-'));
  const path = join(folder, 'usage.db');
  makeEarlierUsage({ folder, period });
  const before = openDatabase(path, { durability: 'normal' });
  before.exec('INSERT INTO position VALUES (0, 7, 0)');
  before.close();
  for (const start of ['upgraded', 'opened again']) {
    const store = openUsageStore(path, { keepRows: true });
    expect(store.nextOffset(0), start).toBe(7);
    expect(store.highWater(earlierIncarnation), start).toBe(1);
    expect(store.poolTotals(), start).toContainEqual({
      organisation: 'acme',
      period,
      tokens: 300,
      requests: 9,
    });
    expect(store.unnamedTotals(), start).toEqual(store.poolTotals());
    store.close();
  }
  const store = openUsageStore(path, { keepRows: true });
  // The same row once more, one of a gateway of 0.1, and one of a gateway that names its replica.
  store.apply(0, [record(7, 1), record(8, 2), record(9, 3, { replica: earlierIncarnation })]);
  expect(store.nextOffset(0)).toBe(10);
  const ofPeriod = (totals: readonly { period: string; tokens: number; requests: number }[]) =>
    totals.filter((total) => total.period === period);
  expect(ofPeriod(store.poolTotals())).toEqual([{ organisation: 'acme', period, tokens: 314, requests: 11 }]);
  expect(ofPeriod(store.unnamedTotals())).toEqual([
    { organisation: 'acme', period, tokens: 307, requests: 10 },
  ]);
  store.close();
  rmSync(folder, { recursive: true });
});
