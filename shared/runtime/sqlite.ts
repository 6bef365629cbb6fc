/** Opens SQLite databases, checks their formats and maps the driver's errors. No other file imports the driver. */
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import type Driver from 'better-sqlite3';

/**
 * Package of the driver to use with this version of Node. The older one may crash on Node 24. The newer one needs Node-API
 * 10, which Node 20 lacks.
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
   * Durability of commits.
   *
   * - `full`: a commit is on disk when it returns.
   * - `normal`: a crash of the machine may lose the last commits, but never damages the file.
   * - `process`: after a crash of the machine, the file must be checked.
   */
  readonly durability: Durability;
  readonly readOnly?: boolean;
  /** Longest time in ms that a statement waits for another process's lock. 0 if the event loop must not block. */
  readonly busyTimeoutMs?: number;
  /** Size of the page cache in KB. The driver's default is 16 000, but queues seldom read a page twice. */
  readonly cacheKilobytes?: number;
}

/** Thrown if the driver's native module is missing or was built for another version of Node. */
export class NativeModuleMissing extends Error {
  override readonly name = 'NativeModuleMissing';
}
/** Thrown if the file is not a database, or its content is inconsistent. */
export class DatabaseCorrupt extends Error {
  override readonly name = 'DatabaseCorrupt';
}
/** Thrown if the disk is full or the file cannot be written. The transaction has been rolled back. */
export class DatabaseUnwritable extends Error {
  override readonly name = 'DatabaseUnwritable';
}
/** Thrown if another version of Headgate wrote the file in another format. */
export class OtherFormat extends Error {
  override readonly name = 'OtherFormat';
}
/** Thrown if another process holds the lock. */
export class DatabaseBusy extends Error {
  override readonly name = 'DatabaseBusy';
}

let driver: typeof Driver | undefined;

function loadDriver(): typeof Driver {
  driver ??= createRequire(import.meta.url)(driverName) as typeof Driver;
  return driver;
}

/** Opens a database file in WAL mode, or `:memory:`. Throws the errors that this file defines. */
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
        // Without this limit, SQLite reuses the write-ahead log and never shrinks it.
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

/** Refuses anything but a regular file, because opening a pipe would block until it has a writer. */
function refuseOtherKinds(path: string): void {
  const found = path === ':memory:' ? undefined : statSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isFile())
    throw new DatabaseUnwritable(
      `${path} is not a file, but ${found.isDirectory() ? 'a folder' : 'a device or pipe'}`,
    );
}

/** Refuses views, triggers and virtual tables, because they could contain code that runs when they are accessed. */
function refuseCode(db: Database, path: string): void {
  const found = db
    .prepare<[], { type: string; name: string }>(
      `SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE '%VIRTUAL%' LIMIT 1`,
    )
    .get();
  if (found !== undefined) throw foreignSchema(path, `the ${found.type} ${JSON.stringify(found.name)}`);
}

/** Throws `DatabaseCorrupt` unless the file has exactly the tables and indexes of `sql`. Extra ones could change rows. */
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

/** Returns the words that define each table and index. Ignores comments and order, which earlier builds changed. */
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
  return new DatabaseCorrupt(`the schema of ${path} differs from the one that Headgate creates: see ${what}`);
}

/** Size in bytes above which a write-ahead log is written back. It is small, because writing back blocks the event loop. */
const walBytesKept = 2 * 1024 * 1024;
/** Maximum size in bytes of a write-ahead log while other connections read. Writing it back takes about 12 ms. */
export const walBytesMax = 16 * 1024 * 1024;

export function walBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}

/** Writes a long write-ahead log back to its database. Never waits: pages in use by readers stay until a later call. */
export function shortenWal(db: Database, path: string): void {
  if (walBytes(path) <= walBytesKept) return;
  const timeoutMs = db.pragma('busy_timeout', { simple: true });
  db.pragma('busy_timeout = 0');
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.pragma(`busy_timeout = ${Number(timeoutMs)}`);
}

export interface FileFormat {
  readonly version: number;
  /** SQL that creates all tables. */
  readonly sql: string;
  /** SQL that upgrades a file of an earlier version to this version, by the earlier version's number. */
  readonly upgrades?: Readonly<Record<number, string>>;
  /** SQL for additions that files of this version may lack, because earlier builds of this version did not create them. */
  readonly added?: string;
}

/**
 * Creates the tables, or upgrades an earlier format, in one transaction. Throws `OtherFormat` if there is no upgrade, and
 * `DatabaseCorrupt` if the file has other tables.
 */
export function createTables(db: Database, path: string, format: FileFormat): void {
  const { version, sql, upgrades, added = '' } = format;
  const found = Number(db.pragma('user_version', { simple: true }));
  const change = found === 0 ? sql : found === version ? '' : upgrades?.[found];
  if (change === undefined)
    throw new OtherFormat(
      `${path} was written by ${found > version ? 'a later' : 'an earlier'} version of Headgate (format ${found}; this build has ${version}); start the version that wrote it, or move the file away and start without its contents`,
    );
  if (found !== version) db.exec(`BEGIN IMMEDIATE; ${change} PRAGMA user_version = ${version}; COMMIT`);
  if (added !== '') db.exec(added);
  refuseForeignSchema(db, path, sql + added);
}

/** Prepares a statement with typed rows and parameters. */
export function prepare<Row, Parameters extends unknown[] = unknown[]>(
  db: Database,
  sql: string,
): Statement<Parameters, Row> {
  return db.prepare(sql) as Statement<Parameters, Row>;
}

/** Locks a file exclusively. The system releases the lock when this process ends or crashes. Throws `DatabaseBusy`. */
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

/** Converts the driver's errors to those that this file defines. Returns all other errors unchanged. */
export function mapSqliteError(error: unknown, path: string): unknown {
  if (!(error instanceof Error)) return error;
  const code = 'code' in error ? String(error.code) : '';
  const options = { cause: error };
  if (error.message.includes('Could not locate the bindings file') || missingCodes.has(code))
    return new NativeModuleMissing(
      `the SQLite module of this Node (${driverName}) is not installed; run: npm ci, or npm rebuild ${driverName}`,
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
