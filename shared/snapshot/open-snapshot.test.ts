/**
 * Tests that a snapshot that cannot be trusted is quarantined and rebuilt, and that the reason is reported. No file content
 * may keep a process from starting. Verification must find damage that only a full read can find.
 */

import { copyFileSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runs } from '../../test/support/budget.ts';
import { ChainWriter, fleetHistory } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { forgePositionIn } from '../../test/support/forged-position.ts';
import { seededRandom } from '../../test/support/random.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import { DatabaseCorrupt, mapSqliteError, openDatabase } from '../runtime/sqlite.ts';
import { foldVersion } from './fold.ts';
import { createLookup } from './lookup.ts';
import { memorySnapshot, OtherFoldVersion, openExisting, openOrRebuild } from './open-snapshot.ts';
import { type TableName, tableNames, tableSpecs } from './tables.ts';
import { verify } from './verify.ts';

const folder = folderOfFile('open');

function makeLog(log = 'test-log'): LogRecord[] {
  const writer = new ChainWriter({ log });
  return [writer.open(), ...fleetHistory(21, 120).map((events) => writer.add(events))];
}
const records = makeLog();
const intact = join(folder, 'intact.db');
const built = openOrRebuild(intact);
built.snapshot.apply(records);
const digests = built.snapshot.digests();
built.snapshot.close();

let copies = 0;
/** Copies the intact snapshot, so that a test can damage the copy. */
function copyOfIntact(): string {
  const path = join(folder, `copy-${copies++}.db`);
  copyFileSync(intact, path);
  return path;
}
function overwrite(path: string, at: number, bytes: Buffer): void {
  const content = readFileSync(path);
  bytes.copy(content, at);
  writeFileSync(path, content);
}
function run(path: string, sql: string): void {
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(sql);
  db.close();
}

test('a cleanly closed snapshot opens unchanged', () => {
  const { snapshot, rebuiltBecause } = openOrRebuild(copyOfIntact(), 'test-log');
  expect(rebuiltBecause).toBeUndefined();
  expect(snapshot.seq).toBe(records.length);
  expect(snapshot.digests()).toEqual(digests);
  expect(verify(snapshot.db).differing).toEqual([]);
  snapshot.close();
});

test('a snapshot that was written to and not closed opens unchanged', () => {
  const path = join(folder, 'unclean.db');
  const first = openOrRebuild(path);
  first.snapshot.apply(records.slice(0, 9));
  first.snapshot.db.close();
  const second = openOrRebuild(path);
  expect(second.rebuiltBecause).toBeUndefined();
  second.snapshot.apply(records.slice(9));
  expect(second.snapshot.digests()).toEqual(digests);
  second.snapshot.close();
});

const notASnapshot = /is not a snapshot$/;
const notWhole = /is not a complete snapshot$/;
const damaged = /is damaged \(SQLITE_/;
const wrongPosition = /is damaged \(its position does not match its checksum\)$/;
const harms: [string, (path: string) => void, RegExp][] = [
  ['a broken header', (path) => overwrite(path, 0, Buffer.from([0xff])), damaged],
  ['an impossible page size', (path) => overwrite(path, 16, Buffer.from([0x03])), damaged],
  ['a random first page', (path) => overwrite(path, 100, Buffer.alloc(3000, 0xa5)), damaged],
  ['text instead of a database', (path) => writeFileSync(path, 'not a database, '.repeat(500)), damaged],
  ['half its bytes', (path) => truncateSync(path, readFileSync(path).length >> 1), damaged],
  ['its last page missing', (path) => truncateSync(path, readFileSync(path).length - 4096), damaged],
  ['no bytes', (path) => truncateSync(path, 0), notASnapshot],
  ['only its first bytes', (path) => truncateSync(path, 100), damaged],
  ['another database', (path) => run(path, 'DROP TABLE position'), notASnapshot],
  ['no position', (path) => run(path, 'DELETE FROM position'), notWhole],
  ['a missing table', (path) => run(path, 'DROP TABLE api_key'), /schema of .* see the table "api_key"$/],
  [
    'a missing column',
    (path) => run(path, 'ALTER TABLE tier DROP COLUMN free_turns'),
    /schema of .* see the table "tier"$/,
  ],
  [
    'a digest that is not a number',
    (path) => run(path, `UPDATE digest SET sum = 'x' WHERE name = 'tier'`),
    notWhole,
  ],
  [
    'signers that are not a list',
    (path) => forgePositionIn(path, `UPDATE position SET signers = '['`),
    notWhole,
  ],
  [
    'another fold version',
    (path) => run(path, 'UPDATE position SET fold_version = 99'),
    new RegExp(`folded by version 99 of the fold, this build has version ${foldVersion}$`),
  ],
  [
    'another version and other columns',
    (path) => run(path, 'UPDATE position SET fold_version = 0; ALTER TABLE position DROP COLUMN diverged_at'),
    /folded by version 0 of the fold/,
  ],
  [
    'the version before positions had a checksum',
    (path) => run(path, 'UPDATE position SET fold_version = 1; ALTER TABLE position DROP COLUMN checksum'),
    /folded by version 1 of the fold/,
  ],
  [
    'a divergence',
    (path) => forgePositionIn(path, 'UPDATE position SET diverged_at = 7'),
    /differed from the checkpoint at 7$/,
  ],
  [
    'another log',
    (path) => forgePositionIn(path, `UPDATE position SET log = 'other'`),
    /belongs to log other, not test-log$/,
  ],
];

/**
 * Wrong values for columns of the position. A process that trusted one would continue at a wrong place or refuse its own log.
 */
const wrongValues = {
  log: "'other'",
  seq: 'seq - 1',
  hash: 'upper(hash)',
  head_offset: 'head_offset - 1',
  next_offset: '4611686018427387904',
  signers: `'["unknown"]'`,
  skipped: 'skipped + 1',
  diverged_at: '7',
  checksum: "''",
};
for (const [column, value] of Object.entries(wrongValues))
  harms.push([
    `a changed ${column}`,
    (path) => run(path, `UPDATE position SET ${column} = ${value}`),
    wrongPosition,
  ]);

test.each(harms)('a file with %s is quarantined and rebuilt, with the reason', (_, harm, reason) => {
  const path = copyOfIntact();
  harm(path);
  const harmed = readFileSync(path);
  const { snapshot, rebuiltBecause } = openOrRebuild(path, 'test-log');
  expect(rebuiltBecause).toMatch(reason);
  // Opening an empty file already makes it a database, so only a file that is not empty stays unchanged.
  if (harmed.length > 0) expect(readFileSync(`${path}.aside`).equals(harmed)).toBe(true);
  expect(snapshot.seq).toBe(0);
  snapshot.apply(records);
  expect(snapshot.digests()).toEqual(digests);
  snapshot.close();
  expect(openOrRebuild(path, 'test-log').rebuiltBecause).toBeUndefined();
});

test('only one earlier file is kept in quarantine', () => {
  const path = copyOfIntact();
  for (const text of ['first', 'second']) {
    writeFileSync(path, text.repeat(500));
    openOrRebuild(path).snapshot.close();
  }
  expect(readFileSync(`${path}.aside`, 'utf8')).toContain('second');
});

test('a quarantined file takes its write-ahead log with it', () => {
  const path = join(folder, 'wal.db');
  const first = openOrRebuild(path);
  first.snapshot.apply(records);
  // Copies the database file and its write-ahead log while the database is open, because a killed process leaves them so.
  const killed = join(folder, 'killed.db');
  for (const suffix of ['', '-wal']) copyFileSync(path + suffix, killed + suffix);
  first.snapshot.close();
  const { snapshot, rebuiltBecause } = openOrRebuild(killed, 'another-log');
  expect(rebuiltBecause).toMatch(/belongs to log test-log/);
  expect(snapshot.seq).toBe(0);
  expect(existsSync(`${killed}.aside`)).toBe(true);
  snapshot.close();
  expect(openOrRebuild(killed).snapshot.seq).toBe(0);
});

/** Returns everything that a request can learn about keys and routes, and the snapshot's position. */
function answers(path: string): unknown {
  const snapshot = openExisting(path, { readOnly: true });
  try {
    const lookup = createLookup(snapshot.db);
    const hashes = records
      .flatMap(({ value }) => JSON.parse(value.toString()).events)
      .map(({ data }) => Buffer.from(data.hash ?? '', 'hex'));
    // Leaves out mark columns, which digests do not cover. A wrong mark makes an explanation name the wrong event, but
    // changes no decision.
    const columnsOf = (name: TableName): string => Object.keys(tableSpecs[name].columns).join();
    const rows = tableNames.map((name) =>
      snapshot.db.prepare(`SELECT ${columnsOf(name)} FROM ${name}`).all(),
    );
    const { head, headOffset, nextOffset, skipped } = snapshot;
    const position = { head, headOffset, nextOffset, skipped };
    return { owners: hashes.map((hash) => lookup.keyOwner(hash)), rows, position };
  } finally {
    snapshot.db.close();
  }
}

test('a flipped bit is found when opening or verifying, or changes no answer, row or position', () => {
  const content = readFileSync(intact);
  // Flips bits only in bytes that are not zero, because most of a small file is unused space.
  const used = [...content.keys()].filter((at) => content[at] !== 0);
  const random = seededRandom(77);
  const whole = answers(intact);
  const outcomes: Record<string, number> = {};
  const flips = runs({ fast: 45, full: 90 });
  for (let n = 0; n < flips; n++) {
    const path = copyOfIntact();
    // Puts a third of the bit flips into the header of the file.
    const at = n < flips / 3 ? n * 2 : (used[Math.floor(random() * used.length)] as number);
    const byte = content[at] as number;
    overwrite(path, at, Buffer.from([byte ^ (1 << Math.floor(random() * 8))]));
    const outcome = outcomeOf(path);
    if (outcome === 'not noticed') expect(answers(path), `byte ${at}`).toEqual(whole);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    for (const suffix of ['', '.aside']) rmSync(path + suffix, { force: true });
  }
  console.log('flipped bits:', outcomes);
  for (const outcome of ['rebuilt', 'named by verify']) expect(outcomes[outcome]).toBeGreaterThan(0);
});

/** Opens and verifies the file and returns the outcome. Any exception other than one that reports damage fails the test. */
function outcomeOf(path: string): string {
  const { snapshot, rebuiltBecause } = openOrRebuild(path, 'test-log');
  try {
    if (rebuiltBecause !== undefined) return 'rebuilt';
    return verify(snapshot.db).differing.length > 0 ? 'named by verify' : 'not noticed';
  } catch (error) {
    if (mapSqliteError(error, path) instanceof DatabaseCorrupt) return 'unreadable to verify';
    throw error;
  } finally {
    snapshot.db.close();
  }
}

test('a damaged page found while folding is reported as damage, and nothing is applied', () => {
  const path = copyOfIntact();
  const intactOne = openExisting(path, { readOnly: true });
  const page = intactOne.db
    .prepare(`SELECT rootpage FROM sqlite_master WHERE name = 'node'`)
    .pluck()
    .get() as number;
  intactOne.db.close();
  overwrite(path, (page - 1) * 4096, Buffer.alloc(4096, 0xa5));
  const { snapshot, rebuiltBecause } = openOrRebuild(path, 'test-log');
  expect(rebuiltBecause).toBeUndefined();
  const writer = new ChainWriter();
  writer.open();
  for (const events of fleetHistory(21, 120)) writer.add(events);
  const everything = fleetHistory(22, 200).flat();
  const { seq } = snapshot;
  expect(() => snapshot.apply([writer.add(everything)])).toThrow(DatabaseCorrupt);
  expect(snapshot.seq).toBe(seq);
  snapshot.db.close();
});

test('every column of the position has a checksum, except those that mark its opening', () => {
  const { db } = memorySnapshot();
  const columns = db.pragma('table_info(position)') as { name: string }[];
  const unprotected = ['lock', 'fold_version', 'clean', 'boot'];
  expect(columns.map(({ name }) => name).filter((name) => !unprotected.includes(name))).toEqual(
    Object.keys(wrongValues),
  );
});

test('openExisting explains why a file cannot be used', () => {
  expect(() => openExisting(join(folder, 'nothing.db'), { readOnly: true })).toThrow(
    /there is no snapshot at/,
  );
  const path = copyOfIntact();
  run(path, 'UPDATE position SET fold_version = 99');
  expect(() => openExisting(path, { readOnly: true })).toThrow(OtherFoldVersion);
  const changed = copyOfIntact();
  run(changed, 'UPDATE position SET seq = seq + 1');
  for (const readOnly of [true, false])
    expect(() => openExisting(changed, { readOnly })).toThrow(wrongPosition);
});

test.each([
  ['rows lost, open at the reboot', 0, 'DELETE FROM member', true],
  ['whole, open at the reboot', 0, '', false],
  ['rows lost after a clean close', 1, 'DELETE FROM member', false],
])('after a reboot, a file is recomputed only if it was open: %s', (_name, clean, sql, rebuilt) => {
  const path = copyOfIntact();
  run(path, `${sql}; UPDATE position SET clean = ${clean}, boot = 'another run of the machine'`);
  const opened = openOrRebuild(path);
  expect(opened.rebuiltBecause !== undefined).toBe(rebuilt);
  if (rebuilt) expect(opened.rebuiltBecause).toContain('member');
  opened.snapshot.close();
});

test('a read-only snapshot folds nothing and is not marked when closed', () => {
  const path = copyOfIntact();
  run(path, 'UPDATE position SET clean = 0');
  const snapshot = openExisting(path, { readOnly: true });
  expect(snapshot.digests()).toEqual(digests);
  const writer = new ChainWriter();
  expect(() => snapshot.apply([writer.open()])).toThrow();
  snapshot.close();
  const db = openDatabase(path, { durability: 'normal' });
  expect(db.prepare('SELECT clean FROM position').get()).toEqual({ clean: 0 });
  db.close();
});

test('closing twice has the effect of closing once', () => {
  const snapshot = memorySnapshot();
  snapshot.close();
  snapshot.close();
  expect(snapshot.db.open).toBe(false);
});
