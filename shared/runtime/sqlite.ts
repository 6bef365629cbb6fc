/**
 * The only file that imports the SQLite driver: open, pragmas, formats, and the mapping of its errors.
 * Everything else uses `Database` and prepared statements.
 */
import { statSync } from 'node:fs';
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
    refuseOtherKinds(path);
    const db = new (loadDriver())(path, {
      readonly: options.readOnly ?? false,
      timeout: options.busyTimeoutMs ?? 5000,
    });
    try {
      if (!options.readOnly && path !== ':memory:') {
        db.pragma('journal_mode = WAL');
        // A write-ahead log that begins again would otherwise stay as long as it once was.
        db.pragma(`journal_size_limit = ${walBytesKept}`);
      }
      refuseCode(db, path);
      db.pragma(`synchronous = ${synchronous[options.durability]}`);
      db.pragma('temp_store = MEMORY');
      db.pragma('trusted_schema = OFF');
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

/** To open a pipe would wait for its writer. */
function refuseOtherKinds(path: string): void {
  const found = path === ':memory:' ? undefined : statSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isFile())
    throw new DatabaseUnwritable(
      `${path} is no file, but ${found.isDirectory() ? 'a folder' : 'a device or pipe'}`,
    );
}

/** Views and triggers run the code of whichever party wrote the file, at the first statement that touches them. */
function refuseCode(db: Database, path: string): void {
  const found = db
    .prepare<[], { type: string; name: string }>(
      `SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE '%VIRTUAL%' LIMIT 1`,
    )
    .get();
  if (found !== undefined) throw foreignSchema(path, `the ${found.type} ${JSON.stringify(found.name)}`);
}

/**
 * Throws DatabaseCorrupt unless the file has exactly the tables and indexes that `sql` makes: who may write to a file could
 * otherwise leave in it what changes rows later on.
 */
export function refuseForeignSchema(db: Database, path: string, sql: string): void {
  const own = ownSchemas.get(sql) ?? expectedSchema(sql);
  ownSchemas.set(sql, own);
  const found = readSchema(db);
  for (const name of new Set([...own.keys(), ...found.keys()]))
    if (own.get(name) !== found.get(name)) throw foreignSchema(path, name);
}

const ownSchemas = new Map<string, ReadonlyMap<string, string>>();

function expectedSchema(sql: string): ReadonlyMap<string, string> {
  const db = openDatabase(':memory:', { durability: 'process' });
  try {
    db.exec(sql);
    return readSchema(db);
  } finally {
    db.close();
  }
}

interface SchemaRow {
  readonly name: string;
  readonly what: string;
  readonly sql: string;
  readonly columns: string;
}

/**
 * What each table and index is: its columns, and the words of its definition. Earlier builds wrote other comments, and the
 * same key in another place.
 */
function readSchema(db: Database): ReadonlyMap<string, string> {
  const rows = db.prepare<[], SchemaRow>(schemaQuery).all();
  return new Map(
    rows.map(({ name, what, sql, columns }) => {
      const words =
        sql
          .replace(/--[^\n]*/g, '')
          .toLowerCase()
          .match(/[^\s(),]+/g) ?? [];
      return [`${what} ${JSON.stringify(name)}`, `${columns} ${[...new Set(words)].sort().join(' ')}`];
    }),
  );
}

const schemaQuery = `
  SELECT m.name, 'the ' || m.type AS what, m.tbl_name || ' ' || coalesce(m.sql, '') AS sql,
    iif(m.type = 'table',
      (SELECT json_group_array(json_array(name, type, pk, pk OR "notnull")) FROM pragma_table_xinfo(m.name)),
      (SELECT json_group_array(json_array(name, "desc", coll, key)) FROM pragma_index_xinfo(m.name))) AS columns
  FROM sqlite_master m`;

function foreignSchema(path: string, what: string): DatabaseCorrupt {
  return new DatabaseCorrupt(`the schema of ${path} is not the one that Headgate makes: see ${what}`);
}

/** A longer write-ahead log is moved into its file: in one turn, so it is short. */
const walBytesKept = 2 * 1024 * 1024;
/** The most that one may reach while other connections read: to move it takes some 12 ms. */
export const walBytesMax = 16 * 1024 * 1024;

export function walBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}

/**
 * Moves a write-ahead log that has become long into the file. Waits for nobody: what another connection still reads stays
 * until a later call.
 */
export function shortenWal(db: Database, path: string): void {
  if (walBytes(path) <= walBytesKept) return;
  const timeoutMs = db.pragma('busy_timeout', { simple: true });
  db.pragma('busy_timeout = 0');
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.pragma(`busy_timeout = ${Number(timeoutMs)}`);
}

export interface FileFormat {
  readonly version: number;
  /** All tables. */
  readonly sql: string;
  /** What makes this format of an earlier one, by its version. */
  readonly upgrades?: Readonly<Record<number, string>>;
  /** What files of this version may lack, because earlier builds may open them: made where it is missing. */
  readonly added?: string;
}

/**
 * Creates the tables of a new file, or upgrades an earlier one, in one transaction. Throws OtherFormat where it cannot, and
 * DatabaseCorrupt where the file has other tables.
 */
export function createTables(db: Database, path: string, format: FileFormat): void {
  const { version, sql, upgrades, added = '' } = format;
  const found = Number(db.pragma('user_version', { simple: true }));
  const change = found === 0 ? sql : found === version ? '' : upgrades?.[found];
  if (change === undefined)
    throw new OtherFormat(
      `${path} was written by ${found > version ? 'a later' : 'an earlier'} version of Headgate (format ${found}; this build has ${version}); start the version that wrote it, or move the file away and begin without what it holds`,
    );
  if (found !== version) db.exec(`BEGIN IMMEDIATE; ${change} PRAGMA user_version = ${version}; COMMIT`);
  if (added !== '') db.exec(added);
  refuseForeignSchema(db, path, sql + added);
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
