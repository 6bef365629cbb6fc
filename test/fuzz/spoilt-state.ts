/**
 * Generates snapshot files that no fold could have made: with flipped bits, truncated, with foreign tables, triggers and
 * views, or with wrong rows.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { forgePosition } from '../support/forged-position.ts';
import type { Draw } from './draw.ts';
import { mutateBytes } from './mutate.ts';

/**
 * Statements that change the file through SQLite, so that the file itself stays intact. A statement that fails is skipped.
 */
const statements: readonly string[] = [
  "UPDATE api_key SET state = 'active'",
  'DELETE FROM position',
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

const positions: readonly string[] = [
  'UPDATE position SET seq = 0',
  'UPDATE position SET seq = -1',
  'UPDATE position SET seq = 9007199254740993',
  "UPDATE position SET hash = 'x'",
  "UPDATE position SET log = 'another-log'",
  'UPDATE position SET fold_version = 99',
  'UPDATE position SET head_offset = head_offset - 1',
  'UPDATE position SET next_offset = 0',
  'UPDATE position SET next_offset = 4611686018427387904',
  'UPDATE position SET skipped = skipped + 1',
  "UPDATE position SET checksum = 'x'",
];

export interface SpoiltState {
  readonly bytes: Buffer;
  /**
   * Whether the checksum was changed to match a changed position. Only someone who can write to the data folder can do this.
   */
  readonly isForged: boolean;
}

export function spoiltState(draw: Draw, good: Buffer, dir: string): SpoiltState {
  const bytes = (of: Buffer): SpoiltState => ({ bytes: of, isForged: false });
  const changes = (drawn: readonly string[]) => draw.list(draw.between(1, 3), () => draw.pick(drawn));
  return draw.weighted<() => SpoiltState>([
    [4, () => bytes(mutateBytes(draw, good, 3))],
    [2, () => bytes(good.subarray(0, draw.below(good.length)))],
    [1, () => bytes(Buffer.concat([good, draw.bytes(draw.skewed(9000))]))],
    [1, () => bytes(draw.bytes(draw.skewed(5000)))],
    [1, () => bytes(Buffer.concat([good.subarray(0, 100), draw.bytes(4000)]))],
    [4, () => bytes(changed(draw, good, dir, changes(statements)))],
    [2, () => bytes(changed(draw, good, dir, changes([...statements, ...positions])))],
    [2, () => ({ bytes: changed(draw, good, dir, changes(positions), forgePosition), isForged: true })],
    [1, () => bytes(good)],
  ])();
}

type Execute = (db: Database, statement: string) => void;

function changed(
  draw: Draw,
  good: Buffer,
  dir: string,
  drawn: readonly string[],
  execute: Execute = (db, statement) => db.exec(statement),
): Buffer {
  const path = join(dir, `spoilt-${draw.below(2 ** 31)}.db`);
  writeFileSync(path, good);
  const db = openDatabase(path, { durability: 'normal' });
  try {
    for (const statement of drawn)
      try {
        execute(db, statement);
      } catch {
        // The statement does not fit this state's tables.
      }
    db.pragma('wal_checkpoint(TRUNCATE)');
  } finally {
    db.close();
  }
  const bytes = readFileSync(path);
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
  return bytes;
}
