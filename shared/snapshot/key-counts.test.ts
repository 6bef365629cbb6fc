/** Tests that the stored numbers of keys always match the key rows, whatever was folded, previewed or rolled back. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dayMs } from '../../schemas/durations.ts';
import { runs } from '../../test/support/budget.ts';
import { ChainWriter, firstMomentMs, fleetHistory, known, sha256 } from '../../test/support/commits.ts';
import type { Database } from '../runtime/sqlite.ts';
import { memorySnapshot } from './open-snapshot.ts';
import { keyEndSql } from './tables.ts';

const counted = (db: Database) => db.prepare('SELECT * FROM key_count ORDER BY 1, 2').all();
const recounted = (db: Database) => {
  const keys = `SELECT organisation, ${keyEndSql} / ${dayMs} AS day FROM api_key WHERE organisation IS NOT NULL`;
  return db
    .prepare(
      `SELECT organisation, day, count(*) AS keys FROM (${keys} UNION ALL SELECT '', day FROM (${keys}))
         GROUP BY 1, 2 ORDER BY 1, 2`,
    )
    .all();
};
const created = (n: number, expiresAt: string | null = null) =>
  known('key.created', {
    ...{ id: `key-${n}`, organisation: `org-${n % 2}`, name: 'k', hash: sha256(`k ${n}`) },
    ...{ expires: expiresAt === null ? 'never' : '30d', expiresAt },
  });

test('key counts are right whatever is folded, in any slices', () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 1, max: 9 }), (seed, slice) => {
      const writer = new ChainWriter();
      const snapshot = memorySnapshot();
      snapshot.apply([writer.open()]);
      const records = fleetHistory(seed, 30).map((events) => writer.add(events));
      for (let at = 0; at < records.length; at += slice) snapshot.apply(records.slice(at, at + slice));
      expect(counted(snapshot.db)).toEqual(recounted(snapshot.db));
    }),
    { numRuns: runs({ fast: 20, full: 100 }) },
  );
});

test('a key counts on the day on which it ends, and no longer once it is deleted', () => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  const day = firstMomentMs / dayMs;
  const fold = (...events: Parameters<ChainWriter['add']>[0][number][]) => {
    snapshot.apply([writer.add(events)]);
    return snapshot.db.prepare(`SELECT day, keys FROM key_count WHERE organisation = '' ORDER BY day`).all();
  };
  snapshot.apply([writer.open()]);
  const never = { day: Math.floor(Number.MAX_SAFE_INTEGER / dayMs), keys: 1 };
  expect(fold(created(1), created(2, '2026-01-31T10:00:00Z'))).toEqual([{ day: day + 30, keys: 1 }, never]);
  expect(fold(known('key.revoked', { id: 'key-2' }))).toEqual([{ day, keys: 1 }, never]);
  const data = { id: 'key-2', organisation: 'org-0', name: 'k' };
  expect(fold(known('key.forgotten', data))).toEqual([never]);
  const organisation = { id: 'org-1', name: 'O', tier: null, anchor: '2026-01-01' };
  expect(
    fold(known('organisation.set', organisation), known('organisation.removed', { id: 'org-1' })),
  ).toEqual([]);
});

test('a preview counts its keys, even within another preview, and leaves nothing behind', () => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([writer.open(), writer.add([created(1)])]);
  const context = { seq: 3, atMs: firstMomentMs, by: 'operator' };
  const all = () =>
    snapshot.db.prepare(`SELECT sum(keys) FROM key_count WHERE organisation = ''`).pluck().get();
  snapshot.stateAt({ kind: 'previewed', events: [created(2)], context }, () => {
    expect(all()).toBe(2);
    snapshot.stateAt({ kind: 'previewed', events: [created(3)], context }, () => expect(all()).toBe(3));
    expect(all()).toBe(2);
  });
  expect(all()).toBe(1);
  snapshot.apply([writer.add([created(4)])]);
  expect(counted(snapshot.db)).toEqual(recounted(snapshot.db));
});

test('finding ended keys uses the index on key ends', () => {
  const { db } = memorySnapshot();
  db.exec(`CREATE INDEX api_key_by_end ON api_key (${keyEndSql})`);
  const plan = db
    .prepare(
      `EXPLAIN QUERY PLAN SELECT id FROM api_key WHERE ${keyEndSql} <= ? ORDER BY ${keyEndSql} LIMIT 9`,
    )
    .all(1) as { detail: string }[];
  expect(plan.map(({ detail }) => detail).join()).toMatch(/INDEX api_key_by_end/);
  expect(plan.map(({ detail }) => detail).join()).not.toMatch(/TEMP B-TREE/);
});
