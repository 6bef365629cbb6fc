/**
 * Opens the snapshot of a data folder, or makes an empty one where there is none that can be trusted.
 * A file that is damaged, of another fold version or of another log is quarantined, never folded further.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  type Database,
  DatabaseBusy,
  DatabaseCorrupt,
  DatabaseUnwritable,
  mapSqliteError,
  NativeModuleMissing,
  openDatabase,
  refuseForeignSchema,
} from '../runtime/sqlite.ts';
import { foldVersion } from './fold.ts';
import { journalSql } from './journal.ts';
import { type PositionRow, PositionStore, positionSql } from './position.ts';
import { Snapshot } from './snapshot.ts';
import { keyOrdersSql, schemaSql } from './tables.ts';
import { verify } from './verify.ts';

export interface OpenedSnapshot {
  readonly snapshot: Snapshot;
  /** Why an earlier file was quarantined, if one was. */
  readonly rebuiltBecause?: string;
}

/** A short write-ahead log, 4 KB a page: moving it into the file holds the event loop as long as it is long. */
const walPages = 400;

/** All tables of a snapshot. */
export function stateSql(): string {
  return `${schemaSql()} ${positionSql} ${journalSql}`;
}

/** Makes the tables of an empty snapshot, all of them or none; `orders`: the indexes of a file, by which lists are read. */
export function createSchema(db: Database, orders = ''): void {
  db.exec(`BEGIN; ${stateSql()} ${orders} COMMIT`);
}

/** An empty snapshot in memory, for dry runs, time travel and tests. */
export function memorySnapshot(): Snapshot {
  const db = openDatabase(':memory:', { durability: 'normal' });
  createSchema(db);
  return new Snapshot(db, ':memory:');
}

/** The file was folded by another version of the fold. */
export class OtherFoldVersion extends Error {
  override readonly name = 'OtherFoldVersion';
}

/** Opens `path` unchanged; throws DatabaseCorrupt, OtherFoldVersion, or an Error with the reason why it cannot be used. */
export function openExisting(path: string, options: { readonly readOnly: boolean }): Snapshot {
  if (!existsSync(path)) throw new Error(`there is no snapshot at ${path}`);
  let db: Database | undefined;
  try {
    db = openDatabase(path, { durability, readOnly: options.readOnly });
    const version = readFoldVersion(db, path);
    if (version !== foldVersion)
      throw new OtherFoldVersion(
        `${path} was folded by version ${version} of the fold, this build has version ${foldVersion}`,
      );
    // Digests do not cover what is in no table of this build.
    refuseForeignSchema(db, path, stateSql() + keyOrdersSql);
    return tuned(db, path);
  } catch (error) {
    db?.close();
    throw asCorruption(error, path);
  }
}

function tuned(db: Database, path: string): Snapshot {
  db.pragma(`wal_autocheckpoint = ${walPages}`);
  return new Snapshot(db, path);
}

/** Which run of the machine this is; null where the system does not report it. */
function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

const boot = bootId();
/**
 * Nothing here is lost with the machine that the log does not have, so no fold waits for the disk; a file that was open
 * when the machine went down is recomputed before it is used. Where such a fall cannot be seen, the disk is waited for.
 */
const durability = boot === null ? 'normal' : 'process';

/** Why a file that was not closed in good order cannot be trusted, if so. */
function faultAfterFall(snapshot: Snapshot, position: PositionRow): string | undefined {
  if (position.clean || position.boot === null || position.boot === boot) return undefined;
  const { differing } = verify(snapshot.db);
  return differing.length === 0
    ? undefined
    : `rows of ${differing.join(', ')} were lost when the machine went down`;
}

const notTheFilesFault = [OtherFoldVersion, NativeModuleMissing, DatabaseUnwritable, DatabaseBusy];

/** A file that does not hold what a snapshot of this version holds is damaged, whichever read failed. */
function asCorruption(error: unknown, path: string): unknown {
  const ours = mapSqliteError(error, path);
  if (ours instanceof DatabaseCorrupt || notTheFilesFault.some((kind) => ours instanceof kind)) return ours;
  return new DatabaseCorrupt(`${path} is not a whole snapshot`, { cause: error });
}

/** Asked before anything else: the tables of another version may have other columns. */
function readFoldVersion(db: Database, path: string): number {
  const tables = db.prepare(`SELECT count(*) AS n FROM sqlite_master WHERE name = 'position'`).get() as {
    n: number;
  };
  if (tables.n === 0) throw new DatabaseCorrupt(`${path} is not a snapshot`);
  const position = db.prepare('SELECT fold_version FROM position').get() as { fold_version: number };
  return position.fold_version;
}

/** Opens `path`, or quarantines what was there and creates an empty one. `log`, where given, is the id the snapshot must belong to. */
export function openOrRebuild(path: string, log?: string): OpenedSnapshot {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  let rebuiltBecause: string | undefined;
  if (existsSync(path)) {
    try {
      const snapshot = openExisting(path, { readOnly: false });
      const positions = new PositionStore(snapshot.db);
      rebuiltBecause = reasonAgainst(snapshot, positions.read(), log);
      if (rebuiltBecause === undefined) {
        positions.markOpen(boot);
        return { snapshot };
      }
      snapshot.db.close();
    } catch (error) {
      // Only a fault of the file itself leads to a rebuild; a full disk or a missing module does not.
      if (!(error instanceof DatabaseCorrupt || error instanceof OtherFoldVersion)) throw error;
      rebuiltBecause = error.message;
    }
  }
  // If only the write-ahead log of a removed file is left, SQLite would replay it into the new file.
  if (existsSync(path) || existsSync(`${path}-wal`)) quarantineFile(path);
  const db = openDatabase(path, { durability });
  createSchema(db, keyOrdersSql);
  new PositionStore(db).markOpen(boot);
  const snapshot = tuned(db, path);
  return rebuiltBecause === undefined ? { snapshot } : { snapshot, rebuiltBecause };
}

function reasonAgainst(
  snapshot: Snapshot,
  position: PositionRow,
  log: string | undefined,
): string | undefined {
  if (snapshot.divergedAt !== null) return `it differed from the checkpoint at ${snapshot.divergedAt}`;
  if (log !== undefined && snapshot.log !== null && snapshot.log !== log)
    return `it belongs to log ${snapshot.log}, not ${log}`;
  return faultAfterFall(snapshot, position);
}

/** Keeps one earlier file for inspection; its write-ahead log would otherwise be replayed into the new one. */
export function quarantineFile(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) {
    rmSync(`${path}.aside${suffix}`, { force: true });
    if (existsSync(path + suffix)) renameSync(path + suffix, `${path}.aside${suffix}`);
  }
}
