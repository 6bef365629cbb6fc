/**
 * Tests that verification recomputes digests from the rows, and that it finds and names any table that was changed without
 * the fold.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ChainWriter, fleetHistory, known, sha256 } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { type Database, DatabaseCorrupt, openDatabase } from '../runtime/sqlite.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { type TableName, type TableSpec, tableNames, tableSpecs } from './tables.ts';
import { type Verification, verify, verifySteps, verifyTable } from './verify.ts';

/** Returns a snapshot with rows in every table, and the writer of its log. */
function filled(): { snapshot: Snapshot; writer: ChainWriter } {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([writer.open(), ...fleetHistory(1, 300).map((events) => writer.add(events))]);
  const id = 'node-extra';
  snapshot.apply([
    writer.add([
      known('node.registered', {
        id,
        place: { kind: 'organisation', id: 'org-1' },
        url: 'http://h',
        dialect: 'vllm',
        agent: true,
      }),
      known('pool.model_installed', { model: 'echo' }),
      known('node.joined', { id, owner: 'c', generation: 1 }),
      known('node.health_changed', { id, owner: 'c', generation: 1, up: true, models: ['echo'] }),
      known('node.token_created', { id: 'token-extra', node: id, hash: sha256('t') }),
    ]),
  ]);
  return { snapshot, writer };
}

const folder = folderOfFile('verify');
const image = filled().snapshot.db.serialize();
let copies = 0;

/** Returns the database of a filled snapshot, for tests that do not fold anything else. */
function filledDatabase(): Database {
  const path = join(folder, String(copies++));
  writeFileSync(path, image);
  const db = openDatabase(path, { durability: 'process' });
  onTestFinished(() => {
    db.close();
  });
  return db;
}

const columns = tableNames.flatMap((table) =>
  Object.entries((tableSpecs[table] as TableSpec).columns).map(
    ([column, { sql }]) => [table, column, sql] as const,
  ),
);

test.each(columns)('a manual change of %s.%s is found, in that table only', (table, column, type) => {
  const db = filledDatabase();
  const { key } = tableSpecs[table] as TableSpec;
  const first = `(${key.join(', ')}) = (SELECT ${key.join(', ')} FROM ${table} LIMIT 1)`;
  const value = { TEXT: `'changed'`, INTEGER: '123456789', BLOB: `x'00ff'` }[type];
  const { changes } = db.prepare(`UPDATE ${table} SET ${column} = ${value} WHERE ${first}`).run();
  expect(changes).toBe(1);
  expect(verify(db).differing).toEqual([table]);
});

test.each(tableNames)('a row removed from or added to %s by hand is found', (table) => {
  const db = filledDatabase();
  expect(verify(db).differing).toEqual([]);
  const { columns: all, key } = tableSpecs[table] as TableSpec;
  db.exec(`CREATE TEMP TABLE taken AS SELECT * FROM ${table} LIMIT 1`);
  db.exec(`DELETE FROM ${table} WHERE (${key.join(', ')}) IN (SELECT ${key.join(', ')} FROM taken)`);
  expect(verify(db).differing).toEqual([table]);
  db.exec(`INSERT INTO ${table} SELECT * FROM taken`);
  expect(verify(db).differing).toEqual([]);
  const values = Object.values(all).map(({ sql }) => ({ TEXT: `'new'`, INTEGER: '1', BLOB: `x'00'` })[sql]);
  db.exec(`INSERT INTO ${table} (${Object.keys(all).join(', ')}) VALUES (${values.join(', ')})`);
  expect(verify(db).differing).toEqual([table]);
});

test('two rows that swap their values are found, even though their sums match', () => {
  const db = filledDatabase();
  db.exec(`UPDATE api_key SET organisation = CASE organisation WHEN 'org-1' THEN 'org-2' ELSE 'org-1' END
                    WHERE id IN (SELECT id FROM api_key WHERE hash IS NOT NULL LIMIT 2)`);
  expect(verify(db).differing).toEqual(['api_key']);
});

const indexes = tableNames.flatMap((table) =>
  ((tableSpecs[table] as TableSpec).indexes ?? []).map((index) => [table, index.join('_')] as const),
);

test.each(indexes)('a row of %s missing from its index by %s is found', (table, index) => {
  const db = filledDatabase();
  // Gives an index a condition that is never true, so that the index loses every row while the rows themselves stay intact.
  db.unsafeMode(true);
  db.pragma('writable_schema = ON');
  db.exec(`UPDATE sqlite_master SET sql = sql || ' WHERE 1 = 0' WHERE name = '${table}_by_${index}'`);
  db.pragma('writable_schema = RESET');
  db.exec(`REINDEX ${table}_by_${index}`);
  db.pragma('writable_schema = ON');
  db.exec(
    `UPDATE sqlite_master SET sql = replace(sql, ' WHERE 1 = 0', '') WHERE name = '${table}_by_${index}'`,
  );
  db.pragma('writable_schema = RESET');
  expect(verify(db).differing).toEqual([table]);
});

function finish(steps: Generator<void, Verification>, between: (step: number) => void): Verification {
  for (let step = 0; ; step++) {
    const { done, value } = steps.next();
    if (done) return value;
    between(step);
  }
}

test('commits folded between steps do not count as differences', () => {
  const { snapshot, writer } = filled();
  const later = fleetHistory(6, 30);
  const { differing } = finish(verifySteps(snapshot.db, 3), () => {
    const events = later.pop();
    if (events) snapshot.apply([writer.add(events)]);
  });
  expect(later).toEqual([]);
  expect(differing).toEqual([]);
});

test('a manual change is found even if commits are folded at every step', () => {
  const { snapshot, writer } = filled();
  snapshot.db.exec(`UPDATE api_key SET organisation = 'mine' WHERE id = (SELECT max(id) FROM api_key)`);
  const verdict = finish(verifySteps(snapshot.db, 3), () =>
    snapshot.apply([writer.add([known('no_op', {})])]),
  );
  expect(verdict.differing).toEqual(['api_key']);
});

test('a step reads no more rows than its limit', () => {
  const db = filledDatabase();
  const total = verify(db).rows;
  let steps = 0;
  finish(verifySteps(db, 2), () => {
    steps++;
  });
  expect(steps).toBeGreaterThanOrEqual(total / 2);
});

test('a position changed by hand is found, however the rows are recomputed', () => {
  const db = filledDatabase();
  db.exec('UPDATE position SET next_offset = next_offset + 1');
  expect(() => verify(db)).toThrow(DatabaseCorrupt);
  expect(() => verifyTable(db, 'tier', 1000).next()).toThrow(/position does not match its checksum/);
});

test('an empty snapshot is intact', () => {
  expect(verify(memorySnapshot().db)).toEqual({ differing: [], rows: 0 });
  expect(Object.values(memorySnapshot().digests()).every((sum) => /^0{32}$/.test(sum))).toBe(true);
});

test('every table of the filled snapshot has rows, so that the tests above prove something', () => {
  const db = filledDatabase();
  const empty = tableNames.filter((name: TableName) => !db.prepare(`SELECT 1 FROM ${name}`).get());
  expect(empty).toEqual([]);
});
