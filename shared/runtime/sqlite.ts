/**
 * The only file that imports the SQLite driver: open, pragmas, formats, and the mapping of its errors.
 * Everything else uses `Database` and prepared statements.
 */
import { createRequire } from 'node:module';
import type Driver from 'better-sqlite3';

/**
 * One driver in two builds. On Node 24 garbage may be collected where no environment is current, which ends a process that
 * uses the older build; the newer one needs Node-API 10, which Node 20 does not have.
 */
const driverName =
  Number(process.versions.node.split('.', 1)[0]) >= 24 ? 'better-sqlite3-node-api' : 'better-sqlite3';

export type Database = Driver.Database;
export type Statement<Parameters extends unknown[] = unknown[], Row = unknown> = Driver.Statement<
  Parameters,
  Row
>;

const synchronous = { full: 'FULL', normal: 'NORMAL', process: 'OFF' } as const;
export type Durability = keyof typeof synchronous;

export interface OpenOptions {
  /**
   * `full`: a commit is on the disk when it returns. `normal`: the last commits may be lost with the machine, the file never.
   * `process`: the file survives a crash of the process alone; after one of the machine it must be checked.
   */
  readonly durability: Durability;
  readonly readOnly?: boolean;
  /** How long a statement may block on another process's lock, ms. 0 where an event loop must never wait. */
  readonly busyTimeoutMs?: number;
  /** Pages that the connection keeps in memory, KB. The driver keeps 16 000, of which a queue reads few again. */
  readonly cacheKilobytes?: number;
}

/** The native part of the driver is missing or was built for another Node. */
export class NativeModuleMissing extends Error {
  override readonly name = 'NativeModuleMissing';
}
/** The file is not a database, or its pages contradict each other. */
export class DatabaseCorrupt extends Error {
  override readonly name = 'DatabaseCorrupt';
}
/** The disk is full, or the file may not be written. The transaction was rolled back. */
export class DatabaseUnwritable extends Error {
  override readonly name = 'DatabaseUnwritable';
}
/** The file has the format of another version of Headgate. */
export class OtherFormat extends Error {
  override readonly name = 'OtherFormat';
}
/** Another process holds the lock. */
export class DatabaseBusy extends Error {
  override readonly name = 'DatabaseBusy';
}

let driver: typeof Driver | undefined;

function loadDriver(): typeof Driver {
  driver ??= createRequire(import.meta.url)(driverName) as typeof Driver;
  return driver;
}

/** Opens a database file in WAL mode (or `:memory:`). Throws one of the errors above. */
export function openDatabase(path: string, options: OpenOptions): Database {
  try {
    const db = new (loadDriver())(path, {
      readonly: options.readOnly ?? false,
      timeout: options.busyTimeoutMs ?? 5000,
    });
    try {
      if (!options.readOnly && path !== ':memory:') db.pragma('journal_mode = WAL');
      db.pragma(`synchronous = ${synchronous[options.durability]}`);
      db.pragma('temp_store = MEMORY');
      if (options.cacheKilobytes !== undefined) db.pragma(`cache_size = -${options.cacheKilobytes}`);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  } catch (error) {
    throw mapSqliteError(error, path);
  }
}

export interface FileFormat {
  readonly version: number;
  /** All tables. */
  readonly sql: string;
  /** What makes this format of an earlier one, by its version. */
  readonly upgrades?: Readonly<Record<number, string>>;
}

/** Creates the tables of a new file, or upgrades an earlier one, in one transaction. Throws OtherFormat where it cannot. */
export function createTables(db: Database, path: string, format: FileFormat): void {
  const found = Number(db.pragma('user_version', { simple: true }));
  if (found === format.version) return;
  const upgrade = format.upgrades?.[found];
  if (upgrade !== undefined) {
    db.transaction(() => {
      db.exec(upgrade);
      db.pragma(`user_version = ${format.version}`);
    }).immediate();
    return;
  }
  if (found !== 0)
    throw new OtherFormat(
      `${path} was written by ${found > format.version ? 'a later' : 'an earlier'} version of Headgate (format ${found}; this build has ${format.version})`,
    );
  db.exec(`BEGIN IMMEDIATE; ${format.sql} PRAGMA user_version = ${format.version}; COMMIT`);
}

/** A prepared statement with the types of its rows and parameters. */
export function prepare<Row, Parameters extends unknown[] = unknown[]>(
  db: Database,
  sql: string,
): Statement<Parameters, Row> {
  return db.prepare(sql) as Statement<Parameters, Row>;
}

/** Takes an exclusive lock, which the kernel releases at the end of this process, also after a crash. Throws DatabaseBusy. */
export function lockFile(path: string): { release(): void } {
  const db = openDatabase(path, { durability: 'normal', busyTimeoutMs: 0 });
  try {
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS lock (pid INTEGER); COMMIT');
    db.exec(`BEGIN EXCLUSIVE; DELETE FROM lock; INSERT INTO lock VALUES (${process.pid}); COMMIT`);
  } catch (error) {
    db.close();
    throw mapSqliteError(error, path);
  }
  return { release: () => db.close() };
}

const missingCodes = new Set(['ERR_DLOPEN_FAILED', 'MODULE_NOT_FOUND']);

/** Maps the driver's errors to the classes above; others pass unchanged. */
export function mapSqliteError(error: unknown, path: string): unknown {
  if (!(error instanceof Error)) return error;
  const code = 'code' in error ? String(error.code) : '';
  const options = { cause: error };
  if (error.message.includes('Could not locate the bindings file') || missingCodes.has(code))
    return new NativeModuleMissing(
      `the SQLite module of this Node (${driverName}) is not there; run: npm ci, or npm rebuild ${driverName}`,
      options,
    );
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code))
    return new DatabaseCorrupt(`${path} is damaged (${code})`, options);
  if (/^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|PERM)/.test(code))
    return new DatabaseUnwritable(
      `cannot write ${path} (${code}); free some disk space or check its permissions`,
      options,
    );
  if (/^SQLITE_(BUSY|LOCKED)/.test(code))
    return new DatabaseBusy(`${path} is in use by another process`, options);
  return error;
}
