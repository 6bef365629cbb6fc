/** A restore plan restores the rows of any history, in commits that every reader accepts. */
import { expect, test } from 'vitest';
import { commitBytesMax, parseCommit } from '../../schemas/commit.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { ephemeralTables } from '../../shared/snapshot/restore.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { tableNames } from '../../shared/snapshot/tables.ts';
import { ChainWriter, fleetHistory, known, sha256 } from '../../test/support/commits.ts';
import { planRestore, type RestorePlan } from './restore-plan.ts';

function historyOf(seed: number, commits: number): { snapshot: Snapshot; writer: ChainWriter } {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([
    writer.open(),
    ...fleetHistory(seed, commits).map((events) => writer.add(events, `by-${seed}`)),
  ]);
  return { snapshot, writer };
}

function foldedFrom(plan: RestorePlan): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(plan.records.map((record, offset) => ({ offset, ...record })));
  return snapshot;
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'the state of a random history comes back, row by row (seed %i)',
  (seed) => {
    const { snapshot } = historyOf(seed, 400);
    const plan = planRestore(snapshot, undefined);
    const restored = foldedFrom(plan);
    expect(restored.seq).toBe(plan.records.length);
    expect(restored.divergedAt).toBeNull();
    for (const table of tableNames)
      if (!ephemeralTables.has(table))
        expect(restored.digests()[table], table).toBe(snapshot.digests()[table]);
    const nodes = 'SELECT id, place, url, dialect, credential, models, agent, drained FROM node ORDER BY id';
    expect(restored.db.prepare(nodes).all()).toEqual(snapshot.db.prepare(nodes).all());
  },
);

test('keys that were revoked, also before they were created, stay revoked at the same time by the same person', () => {
  const { snapshot, writer } = historyOf(9, 10);
  snapshot.apply([
    writer.add([known('key.revoked', { id: 'early' })], 'ana'),
    writer.add(
      [
        known('key.created', {
          id: 'key-1',
          organisation: 'org-1',
          name: 'a',
          hash: sha256('a'),
          expires: '30d',
          expiresAt: '2027-01-01T00:00:00.000Z',
        }),
      ],
      'ben',
    ),
    writer.add([known('key.revoked', { id: 'key-1' })], 'ana'),
  ]);
  const restored = foldedFrom(planRestore(snapshot, undefined));
  expect(restored.digests().api_key).toBe(snapshot.digests().api_key);
});

test('no commit is larger than a commit may be, and the first names the state it continues', () => {
  const { snapshot, writer } = historyOf(10, 5);
  const name = 'n'.repeat(200);
  const keys = Array.from({ length: 6000 }, (_, n) =>
    known('key.created', {
      id: `key-many-${n}`,
      organisation: 'org-1',
      name,
      hash: sha256(`many-${n}`),
      expires: 'never',
      expiresAt: null,
    }),
  );
  for (let n = 0; n < keys.length; n += 1000) snapshot.apply([writer.add(keys.slice(n, n + 1000))]);
  const { records } = planRestore(snapshot, undefined);
  expect(Math.max(...records.map(({ value }) => value.length))).toBeLessThan(commitBytesMax);
  const { log, seq, hash } = snapshot.head;
  expect(parseCommit(records[0]!.value)!.events[0]!.data).toMatchObject({
    continues: { log, seq, hash, commits: records.length - 1 },
  });
});

test('a row that no event can have made is refused before anything is written', () => {
  const { snapshot } = historyOf(11, 50);
  snapshot.db.exec(`UPDATE model SET weight = -1`);
  expect(() => planRestore(snapshot, undefined)).toThrow();
  const { snapshot: other } = historyOf(11, 50);
  other.db.exec(`UPDATE model SET weight = 7`);
  expect(() => planRestore(other, undefined)).toThrow(/cannot be restored exactly: model/);
});
