/**
 * The file behind an embedded log: one SQLite database for each topic, shared by all processes of one machine.
 * Everything here is synchronous and never waits for a lock: it throws DatabaseBusy, and the caller retries later.
 * A record is complete in the file or absent, and its offset is one more than that of the record before it.
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

/** Records removed by one trimming at most, so that no append waits for long. */
const trimmedAtOnceMax = 10_000;

const format = {
  version: 1,
  sql: `
CREATE TABLE IF NOT EXISTS record (
  offset INTEGER PRIMARY KEY,   -- from 0, without holes
  at_ms INTEGER NOT NULL,       -- time of the log, ms since 1970; see LogTime
  value BLOB NOT NULL,          -- the raw bytes
  signature BLOB                -- Ed25519 over value
) STRICT;
`,
  // Added later, and unknown to the first version, which neither needs nor harms it.
  added: logTimeSql,
};

export interface NewRecord {
  readonly value: Buffer;
  readonly signature: Buffer | null;
}

/** A commit to the file failed, and the records may be in it or not. */
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

function prepare(db: Database): Statements {
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
  /** The first record kept may be after the offset that a reader requests. */
  readonly allowTrimmed: boolean;
  /** Monotonic clock that keeps the records' time from leaping. Without it, records get the writer's wall-clock time. */
  readonly monotonicMs?: (() => number) | undefined;
}

export class EmbeddedFile {
  readonly #options: FileOptions;
  readonly #db: Database;
  readonly #statements: Statements;
  readonly #opened: Identity;
  readonly #time: LogTime | undefined;

  /** Creates folder (0700) and file (0600) where they are missing. Throws the errors of shared/runtime/sqlite.ts, or LogReplaced. */
  constructor(options: FileOptions) {
    this.#options = options;
    create(options.path);
    this.#opened = identityOf(options.path);
    const db = openDatabase(options.path, { durability: options.durability, busyTimeoutMs: 0 });
    try {
      createTables(db, options.path, format);
      this.#statements = prepare(db);
      this.#time = options.monotonicMs && new LogTime(db, options.monotonicMs);
      this.checkInPlace();
    } catch (error) {
      db.close();
      throw mapSqliteError(error, options.path);
    }
    this.#db = db;
  }

  /** Throws LogReplaced where the path no longer leads to the file that is open here. */
  checkInPlace(): void {
    const { path } = this.#options;
    const now = identityOf(path);
    if (now && now.ino === this.#opened?.ino && now.dev === this.#opened.dev) return;
    throw new LogReplaced(`${path} was ${now ? 'replaced' : 'removed'} while it was in use`);
  }

  /** The offset after the last record. */
  end(): number {
    return this.#try(() => this.#statements.end.get() as number);
  }

  /** The offset of the first record from this time on, or the end. A search by halves, so that a large file costs little. */
  offsetAt(atMs: number): number {
    return this.#try(() => {
      let low = this.#statements.start.get() as number;
      let high = this.#statements.end.get() as number;
      while (low < high) {
        const middle = Math.floor((low + high) / 2);
        const timeMs = this.#statements.timeOf.get(middle) as number | undefined;
        // Removed by another process meanwhile: older than all that is kept.
        if (timeMs === undefined || timeMs < atMs) low = middle + 1;
        else high = middle;
      }
      return low;
    });
  }

  /** Time of the last record, ms since 1970; undefined in an empty file. */
  lastMs(): number | undefined {
    return this.#try(() => this.#statements.timeOf.get(this.end() - 1) as number | undefined);
  }

  /**
   * Appends all records or none. Returns the offset of the first, and the time of all. On return they are in the file, with the
   * durability of the options.
   */
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

  /** Removes the records before the first one that is not older than `beforeMs`; where all are older, none. */
  trim(beforeMs: number): void {
    this.#try(() => {
      const keptFrom = this.#statements.keptFrom.get(beforeMs) as number | undefined;
      this.#statements.trim.run(keptFrom ?? 0, trimmedAtOnceMax);
    });
  }

  /** The records from `from` on, as many as the limits allow, but one at least. Throws LogTruncated where they were removed. */
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
      throw new LogTruncated(`${this.#options.path} begins at offset ${first.offset}, behind ${from}`);
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

/** A failed write leaves no complete commit; after a failed flush the state is unknown. */
function commitError(error: unknown, path: string): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code.startsWith('SQLITE_IOERR') && code !== 'SQLITE_IOERR_WRITE')
    return new CommitUnclear(`the disk failed while ${path} was written (${code})`, { cause: error });
  return mapSqliteError(error, path);
}

/** Which file a path leads to: the device and the number of the file on it. */
type Identity = { readonly ino: bigint; readonly dev: bigint } | undefined;

function identityOf(path: string): Identity {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}

/** Only a missing file is opened here: closing a second descriptor would drop the locks of the first. */
function create(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}
