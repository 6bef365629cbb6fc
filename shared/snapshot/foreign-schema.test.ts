/**
 * Tests that a snapshot file has exactly the tables and indexes that this build creates. Anything else in its schema,
 * especially a trigger, could change rows without updating their digests.
 */
import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fleetHistory, recordsOf } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { DatabaseCorrupt, openDatabase } from '../runtime/sqlite.ts';
import { openExisting, openOrRebuild } from './open-snapshot.ts';

const folder = folderOfFile('schema');

const intact = join(folder, 'intact.db');
const { snapshot: good } = openOrRebuild(intact);
good.apply(recordsOf(fleetHistory(5, 30)));
good.close();

/**
 * Returns a table's SQL in which STRICT is only part of a comment. In SQL, a line feed ends a comment but a carriage return
 * does not, although JavaScript treats both as the end of a line.
 */
function withoutRules(table: string): string {
  const db = openDatabase(intact, { durability: 'normal', readOnly: true });
  const own = db
    .prepare<[string], { sql: string }>('SELECT sql FROM sqlite_master WHERE name = ?')
    .get(table);
  db.close();
  return (own?.sql ?? '').replace('STRICT, ', '').replace('(', '( -- \rSTRICT\n');
}

const endless =
  'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS fold_version FROM n';

test.each([
  [
    'a trigger that runs on closing',
    'CREATE TRIGGER t AFTER UPDATE ON position BEGIN DELETE FROM digest; END',
  ],
  ['a trigger on keys', "CREATE TRIGGER t AFTER INSERT ON api_key BEGIN UPDATE api_key SET hash = 'x'; END"],
  ['a view', 'CREATE VIEW v AS SELECT 1'],
  ['an endless view in place of its position', `DROP TABLE position; CREATE VIEW position AS ${endless}`],
  ['an extra table', 'CREATE TABLE foreign_table (a)'],
  ['a virtual table', 'CREATE VIRTUAL TABLE v USING fts5(a)'],
  ['an extra index', 'CREATE INDEX i ON tier (rank)'],
  ['a table without its constraints', 'DROP TABLE digest; CREATE TABLE digest (name, sum)'],
  ['a table whose constraints are only in a comment', `DROP TABLE tier; ${withoutRules('tier')}`],
  ['an extra column', "ALTER TABLE tier ADD COLUMN more TEXT DEFAULT 'x'"],
])('a snapshot with %s is quarantined and cannot be downloaded', (_what, sql) => {
  const path = join(folder, `${Math.random()}.db`);
  copyFileSync(intact, path);
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(sql);
  db.close();
  for (const readOnly of [true, false])
    expect(() => openExisting(path, { readOnly })).toThrow(DatabaseCorrupt);
  const { snapshot, rebuiltBecause } = openOrRebuild(path);
  expect(rebuiltBecause).toMatch(/schema/);
  expect(snapshot.seq).toBe(0);
  snapshot.close();
  expect(existsSync(`${path}.aside`)).toBe(true);
});
