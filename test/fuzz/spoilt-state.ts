/** Snapshot files that no fold made: bits flipped, cut off, of other tables, with triggers and views, of wrong rows. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import type { Draw } from './draw.ts';
import { mutateBytes } from './mutate.ts';

/** Changes made by SQLite itself, so that the file stays whole. A statement that a state refuses is left out. */
const statements: readonly string[] = [
  "UPDATE api_key SET state = 'active'",
  'DELETE FROM position',
  'UPDATE position SET seq = -1',
  'UPDATE position SET seq = 9007199254740993',
  "UPDATE position SET hash = 'x'",
  "UPDATE position SET log = 'another-log'",
  'UPDATE position SET fold_version = 99',
  'UPDATE position SET next_offset = 4611686018427387904',
  "UPDATE digest SET sum = '0'",
  "UPDATE digest SET sum = 'not-hex'",
  'DELETE FROM digest',
  'CREATE TABLE foreign_table (a, b)',
  'DROP TABLE position',
  'DROP TABLE digest',
  'ALTER TABLE position ADD COLUMN more TEXT',
  'CREATE TRIGGER hostile AFTER UPDATE ON position BEGIN DELETE FROM digest; END',
  'ALTER TABLE digest RENAME TO digest_old; CREATE VIEW digest AS SELECT * FROM digest_old',
  'PRAGMA user_version = 99',
  'CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n',
];

/** A file made of the good one; `dir` is for the work. */
export function spoiltState(draw: Draw, good: Buffer, dir: string): Buffer {
  return draw.weighted<() => Buffer>([
    [4, () => mutateBytes(draw, good, 3)],
    [2, () => good.subarray(0, draw.below(good.length))],
    [1, () => Buffer.concat([good, draw.bytes(draw.skewed(9000))])],
    [1, () => draw.bytes(draw.skewed(5000))],
    [1, () => Buffer.concat([good.subarray(0, 100), draw.bytes(4000)])],
    [5, () => changed(draw, good, dir)],
    [1, () => good],
  ])();
}

function changed(draw: Draw, good: Buffer, dir: string): Buffer {
  const path = join(dir, `spoilt-${draw.below(2 ** 31)}.db`);
  writeFileSync(path, good);
  const db = openDatabase(path, { durability: 'normal' });
  try {
    for (const statement of draw.list(draw.between(1, 3), () => draw.pick(statements)))
      try {
        db.exec(statement);
      } catch {
        // The tables of this state do not take it.
      }
    db.pragma('wal_checkpoint(TRUNCATE)');
  } finally {
    db.close();
  }
  const bytes = readFileSync(path);
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
  return bytes;
}
