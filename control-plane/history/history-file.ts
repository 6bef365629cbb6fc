/**
 * Opens `history.db` to be folded further. The file is derived and proves nothing of its own: one that is damaged, differs from
 * a checkpoint of the log, or is of another build or log is removed, and is made again from the log.
 */
import { existsSync, rmSync, statSync } from 'node:fs';
import { type Commit, parseCommit } from '../../schemas/commit.ts';
import { recordAt } from '../../shared/log/core/batches-to-end.ts';
import type { ControlLog, LogBeginning } from '../../shared/log/core/control-log.ts';
import {
  type Database,
  mapSqliteError,
  openDatabase,
  refuseForeignSchema,
} from '../../shared/runtime/sqlite.ts';
import { copyBeginning } from '../../shared/snapshot/log-beginning.ts';
import { createSchema, stateSql } from '../../shared/snapshot/open-snapshot.ts';
import { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { hex128, type TableSpec, tableNames, tableSpecs } from '../../shared/snapshot/tables.ts';
import { HistoryRecorder, historyCommitOf, insertCommitSql } from './recorder.ts';
import { historyFormat, historySql, openEnd } from './tables.ts';

export interface HistoryFile {
  readonly snapshot: Snapshot;
  /** Why an earlier file was removed, if one was. */
  readonly rebuiltBecause?: string;
}

const suffixes = ['', '-wal', '-shm'];
/** A fall of the machine may cost the last commits, which the log has, and never the file. */
const durability = 'normal';

/** The file is not what this build has written from this log. */
export class HistorySpoiled extends Error {
  override readonly name = 'HistorySpoiled';
}

/** Throws the errors of shared/runtime/sqlite.ts for what a new file would not change, such as a full disk. */
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

/**
 * Begins the history again at the place where the log begins, with the state that the log keeps there: states from there on are
 * whole. A process that ends meanwhile leaves an empty history, which is begun again.
 */
export async function beginHistoryAt(
  path: string,
  log: ControlLog,
  beginning: LogBeginning,
): Promise<Snapshot> {
  const state = `${path}.beginning`;
  const record = await recordAt(log, beginning.offset);
  const commit = record && parseCommit(record.value);
  await copyBeginning(state, log, beginning);
  removeHistory(path);
  const empty = create(path);
  try {
    if (commit?.seq !== beginning.seq) throw new Error(`the log does not have its commit ${beginning.seq}`);
    takeState(empty.db, state, commit, beginning.signers);
  } finally {
    empty.db.close();
    removeHistory(state);
  }
  return openExistingHistory(path, beginning.log);
}

/** In one transaction. A row is of the commit that set it, where it has a mark that says which. */
function takeState(db: Database, state: string, commit: Commit, signers: readonly string[]): void {
  const { seq } = commit;
  db.prepare('ATTACH ? AS beginning').run(state);
  db.exec('BEGIN IMMEDIATE');
  for (const table of ['position', 'digest', ...tableNames])
    db.exec(`DELETE FROM main.${table}; INSERT INTO main.${table} SELECT * FROM beginning.${table}`);
  for (const table of tableNames) {
    const { columns, key, marks }: TableSpec = tableSpecs[table];
    const names = Object.keys(columns).join(', ');
    const setSeq = marks && Object.hasOwn(marks, 'set_at') ? `coalesce(set_at, ${seq})` : `${seq}`;
    db.exec(`INSERT INTO past_${table} (${names}, set_seq, end_seq) SELECT ${names}, ${setSeq}, ${openEnd} FROM main.${table};
      INSERT INTO key_${table} (${key.join(', ')}) SELECT ${key.join(', ')} FROM main.${table}`);
  }
  const digests = Object.fromEntries(
    db
      .prepare<[], { readonly name: string; readonly sum: string }>('SELECT name, sum FROM digest')
      .all()
      .map(({ name, sum }) => [name, sum]),
  );
  const all = Object.fromEntries(tableNames.map((name) => [name, digests[name] ?? hex128(0n)]));
  db.exec('DELETE FROM span');
  db.prepare('INSERT INTO span (seq, digests) VALUES (?, ?)').run(seq, JSON.stringify(all));
  db.prepare(insertCommitSql).run(historyCommitOf(commit, 0, JSON.stringify(signers)));
  db.exec('COMMIT; DETACH beginning');
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
