/** Opens `history.db` for folding. Rebuilds it if it is damaged, from another build or log, or contradicts a checkpoint. */
import { existsSync, rmSync, statSync } from 'node:fs';
import {
  type Database,
  mapSqliteError,
  openDatabase,
  refuseForeignSchema,
} from '../../shared/runtime/sqlite.ts';
import { createSchema, stateSql } from '../../shared/snapshot/open-snapshot.ts';
import { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { HistoryRecorder } from './recorder.ts';
import { historyFormat, historySql } from './tables.ts';

export interface HistoryFile {
  readonly snapshot: Snapshot;
  /** Reason why an earlier file was removed. Absent if none was removed. */
  readonly rebuiltBecause?: string;
}

const suffixes = ['', '-wal', '-shm'];
/** After a power failure, the file may lack its last commits, which the log still contains, but it is not damaged. */
const durability = 'normal';

/** Thrown if the file was written by another build or from another log. */
export class HistorySpoiled extends Error {
  override readonly name = 'HistorySpoiled';
}

/** Opens or creates the file. Throws only if a new file would not help, for example because the disk is full. */
export function openHistory(path: string, log: string | null): HistoryFile {
  if (!existsSync(path)) return { snapshot: create(path) };
  try {
    return { snapshot: openExistingHistory(path, log) };
  } catch (error) {
    const known = mapSqliteError(error, path);
    if (!(known instanceof HistorySpoiled) && (known as Error).name !== 'DatabaseCorrupt') throw known;
    removeHistory(path);
    return { snapshot: create(path), rebuiltBecause: (known as Error).message };
  }
}

export function removeHistory(path: string): void {
  for (const suffix of suffixes) rmSync(path + suffix, { force: true });
}

export function historyBytes(path: string): number {
  return suffixes.reduce(
    (sum, suffix) => sum + (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

function create(path: string): Snapshot {
  const db = openDatabase(path, { durability });
  createSchema(db);
  db.exec(`BEGIN; ${historySql()} COMMIT`);
  return new Snapshot(db, path, new HistoryRecorder(db));
}

function openExistingHistory(path: string, log: string | null): Snapshot {
  const db = openDatabase(path, { durability });
  try {
    refuseForeignHistory(db, path);
    const snapshot = new Snapshot(db, path, new HistoryRecorder(db));
    if (snapshot.divergedAt !== null)
      throw new HistorySpoiled(`${path} differs from the checkpoint at ${snapshot.divergedAt}`);
    if (snapshot.log !== null && log !== null && snapshot.log !== log)
      throw new HistorySpoiled(`${path} belongs to log ${snapshot.log}, not ${log}`);
    return snapshot;
  } catch (error) {
    db.close();
    throw error;
  }
}

function refuseForeignHistory(db: Database, path: string): void {
  if (Number(db.pragma('user_version', { simple: true })) !== historyFormat())
    throw new HistorySpoiled(`${path} was written by another build`);
  refuseForeignSchema(db, path, `${stateSql()} ${historySql()}`);
}
