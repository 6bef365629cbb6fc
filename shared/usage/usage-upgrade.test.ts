/** The usage.db of a control plane of version 0.1: upgraded once, with its totals, its position and the rows kept for export. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { earlierIncarnation, foldAsEarlier, makeEarlierUsage } from '../../test/support/earlier-folder.ts';
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
    const store = openUsageStore(path, { keepRows: true, acceptUnsigned: true });
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
  const store = openUsageStore(path, { keepRows: true, acceptUnsigned: true });
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

test('rows of new gateways that 0.1 folded count as named once the log shows it, and until then as neither', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-usage-upgrade-'));
  const path = join(folder, 'usage.db');
  makeEarlierUsage({ folder, period });
  const [ofNew, lost] = ['bbbbbbbb-0000-4000-8000-000000000000', 'cccccccc-0000-4000-8000-000000000000'];
  const shipped = (incarnation: string, n: number, promptTokens: number, replica?: string) => ({
    ...{ v: 1, incarnation, n, at: '2026-11-21T10:00:00.000Z', organisation: 'acme', period, draw: 'pool' },
    ...{ model: 'echo-small', promptTokens, completionTokens: 0, requestId: `r-${n}` },
    ...(replica !== undefined && { replica }),
  });
  const rows = [
    shipped(earlierIncarnation, 2, 10),
    shipped(ofNew, 1, 500, ofNew),
    shipped(ofNew, 2, 600, ofNew),
    shipped(lost, 1, 7000),
  ];
  foldAsEarlier(folder, rows, 4);
  const records = rows.map((row, offset) => ({
    offset,
    value: Buffer.from(JSON.stringify([row])),
    signature: null,
  }));
  const [first, second, third] = records;
  if (!(first && second && third)) throw new Error('no records');
  const of = (totals: readonly { period: string; tokens: number; requests: number }[]) =>
    totals.filter((total) => total.period === period).map(({ tokens, requests }) => [tokens, requests]);
  const next = Buffer.from(JSON.stringify([shipped(ofNew, 3, 1, ofNew)]));
  const [all, unknown, known] = [[[8410, 13]], [[300, 9]], [[310, 10]]];
  const steps: [string, (store: ReturnType<typeof openUsageStore>) => boolean | undefined, number[][]][] = [
    ['upgraded', () => undefined, unknown],
    ['a row of 0.1', (store) => store.apply(0, [first]).unnamedChanged, known],
    ['a row of a new gateway', (store) => store.apply(0, [second]).unnamedChanged, known],
    ['the next one of it', (store) => store.apply(0, [third]).unnamedChanged, known],
    [
      'a new row of it',
      (store) => store.apply(0, [{ ...third, offset: 3, value: next }]).unnamedChanged,
      known,
    ],
  ];
  const changed: unknown[] = [];
  for (const [step, change, unnamed] of steps) {
    // Opened for each step: what is known is in the file.
    const store = openUsageStore(path, { keepRows: true, acceptUnsigned: true });
    if (step === 'upgraded') expect(store.nextOffset(0)).toBe(0);
    if (step !== 'a new row of it') expect(of(store.poolTotals()), step).toEqual(all);
    changed.push(change(store));
    expect(of(store.unnamedTotals()), step).toEqual(unnamed);
    expect(store.counts.differing, step).toBe(0);
    store.close();
  }
  expect(changed).toEqual([undefined, true, false, false, false]);
  const store = openUsageStore(path, { keepRows: true, acceptUnsigned: true });
  expect(of(store.poolTotals())).toEqual([[8411, 14]]);
  expect(store.rowsOf('acme', period)).toBe(5);
  store.close();
  rmSync(folder, { recursive: true });
});

test('gateways that do not sign are upgraded first: what they wrote before the control plane was counts, and nothing after it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-usage-upgrade-'));
  const path = join(folder, 'usage.db');
  // A file of the format before records had a MAC, with one row folded.
  const before = openUsageStore(path, { acceptUnsigned: true });
  before.apply(0, [record(0, 1)]);
  before.close();
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(
    "DROP TABLE authenticity; UPDATE incarnation SET hash = hash || 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffff'",
  );
  db.pragma('user_version = 3');
  db.close();
  const unsigned = [record(0, 1), record(1, 2), record(2, 3), record(3, 4)];
  const fold = () => {
    const store = openUsageStore(path);
    // Two records that were not folded yet are in the log.
    store.begin(0, 3);
    store.apply(0, unsigned.slice(store.nextOffset(0)));
    const found = [store.highWater(earlierIncarnation), store.counts.unsigned, store.nextOffset(0)];
    store.close();
    return found;
  };
  expect(fold()).toEqual([3, 1, 4]);
  // Neither at the next start, whatever was appended meanwhile.
  expect(fold()).toEqual([3, 1, 4]);
  const repeated = openUsageStore(path, { acceptUnsigned: true });
  repeated.restart(0);
  repeated.apply(0, [record(0, 1), record(1, 3, { promptTokens: 99 })]);
  expect(repeated.counts).toMatchObject({ repeated: 1, differing: 1 });
  repeated.close();
  rmSync(folder, { recursive: true });
});
