/**
 * File of an embedded log. Each topic is one SQLite database, shared by all processes on a machine. Calls are synchronous and
 * never wait for a lock, but throw `DatabaseBusy`. A record is stored completely or not at all, and offsets increase by one.
 */
import { closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  createTables,
  type Database,
  mapSqliteError,
  openDatabase,
  type Statement,
} from '../../runtime/sqlite.ts';
import { type LogRecord, LogReplaced, LogTruncated } from '../core/control-log.ts';
import { LogTime, logTimeSql } from './log-time.ts';

/** Maximum number of records removed per trim, so that appends do not wait long. */
const trimmedAtOnceMax = 10_000;

const format = {
  version: 1,
  sql: `
CREATE TABLE IF NOT EXISTS record (
  offset INTEGER PRIMARY KEY,   -- from 0, without gaps
  at_ms INTEGER NOT NULL,       -- log time, ms since 1970; see LogTime
  value BLOB NOT NULL,          -- the raw bytes
  signature BLOB                -- Ed25519 over value
) STRICT;
`,
  // Builds from before the `log_time` table existed can still use the file.
  added: logTimeSql,
};

export interface NewRecord {
  readonly value: Buffer;
  readonly signature: Buffer | null;
}

/** Thrown if a commit to the file failed, so that its records may or may not be stored. */
export class CommitUnclear extends Error {
  override readonly name = 'CommitUnclear';
}

interface Statements {
  readonly insert: Statement;
  readonly end: Statement;
  readonly read: Statement;
  readonly keptFrom: Statement;
  readonly start: Statement;
  readonly timeOf: Statement;
  readonly trim: Statement;
}

function prepareStatements(db: Database): Statements {
  return {
    insert: db.prepare('INSERT INTO record (offset, at_ms, value, signature) VALUES (?, ?, ?, ?)'),
    end: db.prepare('SELECT coalesce(max(offset) + 1, 0) FROM record').pluck(),
    read: db.prepare(
      'SELECT offset, value, signature, at_ms AS atMs FROM record WHERE offset >= ? ORDER BY offset LIMIT ?',
    ),
    keptFrom: db.prepare('SELECT offset FROM record WHERE at_ms >= ? ORDER BY offset LIMIT 1').pluck(),
    start: db.prepare('SELECT coalesce(min(offset), 0) FROM record').pluck(),
    timeOf: db.prepare('SELECT at_ms FROM record WHERE offset = ?').pluck(),
    trim: db.prepare(
      'DELETE FROM record WHERE offset IN (SELECT offset FROM record WHERE offset < ? ORDER BY offset LIMIT ?)',
    ),
  };
}

export interface FileOptions {
  readonly path: string;
  readonly durability: 'full' | 'normal';
  /** Whether readers may request offsets before the first remaining record. */
  readonly allowTrimmed: boolean;
  /** Monotonic clock that keeps record times from jumping. Without it, records get the writer's wall-clock time. */
  readonly monotonicMs?: (() => number) | undefined;
}

export class EmbeddedFile {
  readonly #options: FileOptions;
  readonly #db: Database;
  readonly #statements: Statements;
  readonly #opened: Identity;
  readonly #time: LogTime | undefined;

  /** Creates the folder (mode 0700) and file (0600) if they are missing. Throws errors from `sqlite.ts`, or `LogReplaced`. */
  constructor(options: FileOptions) {
    this.#options = options;
    create(options.path);
    this.#opened = readIdentity(options.path);
    const db = openDatabase(options.path, { durability: options.durability, busyTimeoutMs: 0 });
    try {
      createTables(db, options.path, format);
      this.#statements = prepareStatements(db);
      this.#time = options.monotonicMs && new LogTime(db, options.monotonicMs);
      this.checkInPlace();
    } catch (error) {
      db.close();
      throw mapSqliteError(error, options.path);
    }
    this.#db = db;
  }

  /** Throws `LogReplaced` if the path no longer refers to the file that is open. */
  checkInPlace(): void {
    const { path } = this.#options;
    const now = readIdentity(path);
    if (now && now.ino === this.#opened?.ino && now.dev === this.#opened.dev) return;
    throw new LogReplaced(`${path} was ${now ? 'replaced' : 'removed'} while it was in use`);
  }

  end(): number {
    return this.#try(() => this.#statements.end.get() as number);
  }

  /** Finds the first record at or after this time by bisection. Returns its offset, or the end if there is none. */
  offsetAt(atMs: number): number {
    return this.#try(() => {
      let low = this.#statements.start.get() as number;
      let high = this.#statements.end.get() as number;
      while (low < high) {
        const middle = Math.floor((low + high) / 2);
        const timeMs = this.#statements.timeOf.get(middle) as number | undefined;
        // If the record has no time, another process has just removed it, so it is older than all remaining ones.
        if (timeMs === undefined || timeMs < atMs) low = middle + 1;
        else high = middle;
      }
      return low;
    });
  }

  /** Time of the last record in ms since 1970, or undefined if the file is empty. */
  lastMs(): number | undefined {
    return this.#try(() => this.#statements.timeOf.get(this.end() - 1) as number | undefined);
  }

  /** Appends all records or none. Returns the first record's offset and the time that all of them get. */
  append(records: readonly NewRecord[], wallMs: number): { readonly first: number; readonly atMs: number } {
    this.#try(() => this.#db.exec('BEGIN IMMEDIATE'));
    const appended = this.#try(() => {
      const end = this.#statements.end.get() as number;
      const timeMs = this.#time?.next(wallMs) ?? wallMs;
      for (const [index, { value, signature }] of records.entries())
        this.#statements.insert.run(end + index, timeMs, value, signature);
      return { first: end, atMs: timeMs };
    });
    this.#commit();
    this.checkInPlace();
    return appended;
  }

  /** Removes the records before the first one that is at least as new as `beforeMs`. If all are older, removes none. */
  trim(beforeMs: number): void {
    this.#try(() => {
      const keptFrom = this.#statements.keptFrom.get(beforeMs) as number | undefined;
      this.#statements.trim.run(keptFrom ?? 0, trimmedAtOnceMax);
    });
  }

  /** Returns records from offset `from` within the limits, but at least one if any is left. Throws `LogTruncated`. */
  read(from: number, recordsMax: number, bytesMax: number): LogRecord[] {
    const records = this.#try(() => {
      const found: LogRecord[] = [];
      let bytes = 0;
      for (const row of this.#statements.read.iterate(from, recordsMax)) {
        const record = row as LogRecord;
        bytes += record.value.length;
        if (found.length > 0 && bytes > bytesMax) break;
        found.push(record);
      }
      return found;
    });
    const first = records[0];
    if (!first) this.#checkEnd(from);
    else if (first.offset !== from && !this.#options.allowTrimmed)
      throw new LogTruncated(`${this.#options.path} begins at offset ${first.offset}, after ${from}`);
    return records;
  }

  close(): void {
    this.#db.close();
  }

  #checkEnd(from: number): void {
    const end = this.end();
    if (end < from) throw new LogTruncated(`${this.#options.path} ends at offset ${end}, before ${from}`);
  }

  #commit(): void {
    try {
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#rollBack();
      throw commitError(error, this.#options.path);
    }
  }

  #try<Result>(operation: () => Result): Result {
    try {
      return operation();
    } catch (error) {
      this.#rollBack();
      throw mapSqliteError(error, this.#options.path);
    }
  }

  #rollBack(): void {
    if (this.#db.open && this.#db.inTransaction) this.#db.exec('ROLLBACK');
  }
}

/** Maps an error during a commit. If a write failed, nothing is stored. If a flush failed, the records may be stored. */
function commitError(error: unknown, path: string): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code.startsWith('SQLITE_IOERR') && code !== 'SQLITE_IOERR_WRITE')
    return new CommitUnclear(`the disk failed while ${path} was written (${code})`, { cause: error });
  return mapSqliteError(error, path);
}

/** Device and inode of the file at a path, or undefined if there is no file. */
type Identity = { readonly ino: bigint; readonly dev: bigint } | undefined;

function readIdentity(path: string): Identity {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}

/** Creates a missing file. Never opens an existing one, because closing a second descriptor would release its locks. */
function create(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}
