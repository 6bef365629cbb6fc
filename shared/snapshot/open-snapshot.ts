/** Opens a data folder's snapshot. A file that is damaged, or from another fold version or log, is set aside and replaced. */
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
  /** Reason why an earlier snapshot file was set aside. Absent if none was. */
  readonly rebuiltBecause?: string;
}

/** Write-ahead log size at which SQLite checkpoints, in 4 KB pages. It is small because checkpoints block the event loop. */
const walPages = 400;

export function stateSql(): string {
  return `${schemaSql()} ${positionSql} ${journalSql}`;
}

/** Creates all tables of an empty snapshot in one transaction. `orders` is SQL for indexes that only snapshot files need. */
export function createSchema(db: Database, orders = ''): void {
  db.exec(`BEGIN; ${stateSql()} ${orders} COMMIT`);
}

/** Creates an empty snapshot in memory, for dry runs, time travel and tests. */
export function memorySnapshot(): Snapshot {
  const db = openDatabase(':memory:', { durability: 'normal' });
  createSchema(db);
  return new Snapshot(db, ':memory:');
}

/** Thrown if the snapshot file was written by another version of the fold. */
export class OtherFoldVersion extends Error {
  override readonly name = 'OtherFoldVersion';
}

/** Opens an existing snapshot without changing its rows. Throws `DatabaseCorrupt`, `OtherFoldVersion` or another Error. */
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
    // Refuse tables that this build does not know, because digests do not cover them.
    refuseForeignSchema(db, path, stateSql() + keyOrdersSql);
    return openTuned(db, path);
  } catch (error) {
    db?.close();
    throw asCorruption(error, path);
  }
}

function openTuned(db: Database, path: string): Snapshot {
  db.pragma(`wal_autocheckpoint = ${walPages}`);
  return new Snapshot(db, path);
}

/** Id of the machine's current boot, or null if the system does not report it. */
function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

const boot = bootId();
/**
 * Durability of snapshot files. The log has everything, so the fold need not wait for the disk if boot ids reveal that the
 * machine crashed: a file from an earlier boot is verified before use. Without boot ids, it waits.
 */
const durability = boot === null ? 'normal' : 'process';

/** Returns why a file that was not closed cleanly cannot be trusted, or undefined if it can be. */
function faultAfterCrash(snapshot: Snapshot, position: PositionRow): string | undefined {
  if (position.clean || position.boot === null || position.boot === boot) return undefined;
  const { differing } = verify(snapshot.db);
  return differing.length === 0
    ? undefined
    : `rows of ${differing.join(', ')} were lost when the machine went down`;
}

const notTheFilesFault = [OtherFoldVersion, NativeModuleMissing, DatabaseUnwritable, DatabaseBusy];

/** Treats read errors as corruption, unless the cause lies outside the file, such as a missing permission. */
function asCorruption(error: unknown, path: string): unknown {
  const ours = mapSqliteError(error, path);
  if (ours instanceof DatabaseCorrupt || notTheFilesFault.some((kind) => ours instanceof kind)) return ours;
  return new DatabaseCorrupt(`${path} is not a complete snapshot`, { cause: error });
}

/** Reads the fold version. Call it before any other read, because other versions may have other columns. */
function readFoldVersion(db: Database, path: string): number {
  const tables = db.prepare(`SELECT count(*) AS n FROM sqlite_master WHERE name = 'position'`).get() as {
    n: number;
  };
  if (tables.n === 0) throw new DatabaseCorrupt(`${path} is not a snapshot`);
  const position = db.prepare('SELECT fold_version FROM position').get() as { fold_version: number };
  return position.fold_version;
}

/**
 * Opens the snapshot at `path`. If it cannot be trusted, sets its file aside and creates an empty one. If `log` is given, the
 * snapshot must belong to the log with this id.
 */
export function openOrRebuild(path: string, log?: string): OpenedSnapshot {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  let rebuiltBecause: string | undefined;
  if (existsSync(path)) {
    try {
      const snapshot = openExisting(path, { readOnly: false });
      const positions = new PositionStore(snapshot.db);
      rebuiltBecause = whyUntrusted(snapshot, positions.read(), log);
      if (rebuiltBecause === undefined) {
        positions.markOpen(boot);
        return { snapshot };
      }
      snapshot.db.close();
    } catch (error) {
      // Rebuild only if the file itself is faulty, and not because of, for example, a full disk or a missing module.
      if (!(error instanceof DatabaseCorrupt || error instanceof OtherFoldVersion)) throw error;
      rebuiltBecause = error.message;
    }
  }
  // A removed file may have left its write-ahead log behind, which SQLite would replay into the new file.
  if (existsSync(path) || existsSync(`${path}-wal`)) quarantineFile(path);
  const db = openDatabase(path, { durability });
  createSchema(db, keyOrdersSql);
  new PositionStore(db).markOpen(boot);
  const snapshot = openTuned(db, path);
  return rebuiltBecause === undefined ? { snapshot } : { snapshot, rebuiltBecause };
}

function whyUntrusted(
  snapshot: Snapshot,
  position: PositionRow,
  log: string | undefined,
): string | undefined {
  if (snapshot.divergedAt !== null) return `it differed from the checkpoint at ${snapshot.divergedAt}`;
  if (log !== undefined && snapshot.log !== null && snapshot.log !== log)
    return `it belongs to log ${snapshot.log}, not ${log}`;
  return faultAfterCrash(snapshot, position);
}

/** Renames the file, so that people can inspect it, and its write-ahead log, which SQLite would replay into a new file. */
export function quarantineFile(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) {
    rmSync(`${path}.aside${suffix}`, { force: true });
    if (existsSync(path + suffix)) renameSync(path + suffix, `${path}.aside${suffix}`);
  }
}
