/** Files in `usage-rows` with completed requests, one per UTC day. A row counts only if `usage.db` has recorded its move. */
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  createTables,
  type Database,
  DatabaseCorrupt,
  mapSqliteError,
  openDatabase,
  prepare,
} from '../../shared/runtime/sqlite.ts';
import { quarantineFile } from '../../shared/snapshot/open-snapshot.ts';
import { requestSql, type StoredRequest } from './request-table.ts';

export const dayFormat = {
  version: 1,
  sql: `${requestSql}CREATE TABLE owner (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;`,
};
const nameForm = /^(\d{4}-\d\d-\d\d)\.db$/;
const suffixes = ['', '-wal', '-shm'];

const folderName = 'usage-rows';

/** Returns the folder with the day files, which is next to `usage.db`. */
export function dayFolderOf(usagePath: string): string {
  return join(dirname(usagePath), folderName);
}

/** Lists the day files in a data folder, as paths relative to that folder. */
export function dayNamesIn(dataDir: string): string[] {
  return daysIn(join(dataDir, folderName)).map((day) => dayPath(folderName, day));
}

export function dayPath(folder: string, day: string): string {
  return join(folder, `${day}.db`);
}

/** Lists the days that have a file in the folder. */
function daysIn(folder: string): string[] {
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return [];
  return readdirSync(folder).flatMap((name) => nameForm.exec(name)?.[1] ?? []);
}

export function removeDay(folder: string, day: string): void {
  for (const suffix of suffixes) rmSync(dayPath(folder, day) + suffix, { force: true });
}

/** Opens a day's file. Throws the errors from `sqlite.ts`, or `DatabaseCorrupt` if it belongs to another `usage.db`. */
export function openDay(path: string, owner: string): Database {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    refuseOther(db, path, owner);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function refuseOther(db: Database, path: string, owner: string): void {
  const found = prepare<{ id: string }>(db, 'SELECT id FROM owner').get();
  if (found?.id !== owner) throw new DatabaseCorrupt(`${path} has the rows of another usage.db`);
}

/** Writes rows to day files. The rows are on disk when `write` returns. */
export class DayWriter {
  readonly #folder: string;
  readonly #owner: string;
  readonly #open = new Map<string, Database>();

  constructor(folder: string, owner: string) {
    this.#folder = folder;
    this.#owner = owner;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  write(day: string, rows: readonly StoredRequest[]): void {
    const db = this.#opened(day);
    const add = prepare<never, [StoredRequest]>(
      db,
      'INSERT OR REPLACE INTO request VALUES (@id, @organisation, @period, @body)',
    );
    db.transaction(() => {
      for (const row of rows) add.run(row);
    })();
  }

  /** Removes all rows after the id `lastId`, and the files of all days before `fromDay`. */
  cut(lastId: number, fromDay: string): void {
    for (const day of daysIn(this.#folder))
      if (day < fromDay) removeDay(this.#folder, day);
      else this.#opened(day).prepare('DELETE FROM request WHERE id > ?').run(lastId);
    this.close();
  }

  close(): void {
    for (const db of this.#open.values()) db.close();
    this.#open.clear();
  }

  #opened(day: string): Database {
    const open = this.#open.get(day);
    if (open !== undefined) return open;
    const path = dayPath(this.#folder, day);
    try {
      return this.#openFile(day, path);
    } catch (error) {
      if (!(mapSqliteError(error, path) instanceof DatabaseCorrupt)) throw error;
      // The damaged file is kept for inspection. The daily check reports the rows that are now missing.
      quarantineFile(path);
      return this.#openFile(day, path);
    }
  }

  #openFile(day: string, path: string): Database {
    const db = openDatabase(path, { durability: 'full' });
    try {
      createTables(db, path, dayFormat);
      db.prepare('INSERT INTO owner SELECT ? WHERE NOT EXISTS (SELECT * FROM owner)').run(this.#owner);
      refuseOther(db, path, this.#owner);
    } catch (error) {
      db.close();
      throw error;
    }
    this.#open.set(day, db);
    return db;
  }
}
