/**
 * Opens `history.db` to be folded further, and verifies it. The file is derived: one that is damaged, of another build or of
 * another log is removed, and is made again from the log.
 */
import { existsSync, rmSync, statSync } from 'node:fs';
import {
  type Database,
  mapSqliteError,
  openDatabase,
  refuseForeignSchema,
} from '../../shared/runtime/sqlite.ts';
import { createSchema, stateSql } from '../../shared/snapshot/open-snapshot.ts';
import { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { tableNames } from '../../shared/snapshot/tables.ts';
import { chainCommit, type HistoryCommit } from './commit-chain.ts';
import { HistoryRecorder } from './recorder.ts';
import { VersionReader } from './row-changes.ts';
import { historyFormat, historySql, noCommits } from './tables.ts';

export interface HistoryFile {
  readonly snapshot: Snapshot;
  /** Why an earlier file was removed, if one was. */
  readonly rebuiltBecause?: string;
}

const suffixes = ['', '-wal', '-shm'];

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
  const db = openDatabase(path, { durability: 'process' });
  createSchema(db);
  db.exec(`BEGIN; ${historySql()} COMMIT`);
  return new Snapshot(db, path, new HistoryRecorder(db, noCommits));
}

function openExistingHistory(path: string, log: string | null): Snapshot {
  const db = openDatabase(path, { durability: 'process' });
  try {
    refuseForeignHistory(db, path);
    const snapshot = new Snapshot(db, path, new HistoryRecorder(db, tailHash(db, path)));
    const commits = Number(db.prepare('SELECT max(seq) FROM history_commit').pluck().get() ?? 0);
    if (commits !== snapshot.seq || snapshot.divergedAt !== null)
      throw new HistorySpoiled(`${path} contradicts itself at commit ${snapshot.seq}`);
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

/** Throws HistorySpoiled where the commits after the last span are not those that were written. */
function tailHash(db: Database, path: string): string {
  const span = db.prepare('SELECT * FROM span ORDER BY seq DESC LIMIT 1').get() as Span | undefined;
  const stored = db.prepare('SELECT commits FROM tail').pluck().get();
  const hash = span && hashBetween(db, new VersionReader(db), span, Number.MAX_SAFE_INTEGER);
  if (hash === undefined || hash !== stored)
    throw new HistorySpoiled(`the last commits in ${path} differ from their hash`);
  return hash;
}

/** The hash of the commits up to `to`, from that of a span before it. */
function hashBetween(db: Database, reader: VersionReader, from: Span, to: number): string {
  const commits = db.prepare<[number, number], HistoryCommit>(
    'SELECT * FROM history_commit WHERE seq > ? AND seq <= ? ORDER BY seq',
  );
  let hash = from.commits;
  for (const commit of commits.all(from.seq, to)) {
    const changes = reader.changesAt(commit.seq);
    if (changes === undefined) throw new HistorySpoiled(`versions overlap at commit ${commit.seq}`);
    hash = chainCommit(hash, commit, changes);
  }
  return hash;
}

interface Span {
  readonly seq: number;
  readonly digests: string;
  readonly commits: string;
}

/**
 * Recomputes the file span by span: the versions that began and ended in it lead from its digests to the next ones, and its
 * commits have the hash that was stored. One step reads one span. Throws HistorySpoiled. The digests of spans were
 * compared with the checkpoints of the log when they were folded.
 */
export function* verifyHistory(snapshot: Snapshot): Generator<void> {
  const { db } = snapshot;
  const reader = new VersionReader(db);
  const next = db.prepare<[number], Span>('SELECT * FROM span WHERE seq > ? ORDER BY seq LIMIT 1');
  let from = next.get(-1);
  while (from !== undefined) {
    const to = next.get(from.seq);
    if (to === undefined) break;
    const advanced = JSON.stringify(reader.advance(JSON.parse(from.digests), from.seq, to.seq));
    if (advanced !== to.digests)
      throw new HistorySpoiled(`rows between ${from.seq} and ${to.seq} differ from their digest`);
    if (hashBetween(db, reader, from, to.seq) !== to.commits)
      throw new HistorySpoiled(`commits between ${from.seq} and ${to.seq} differ from their hash`);
    yield;
    // Its old end may have been cut meanwhile.
    from = next.get(to.seq - 1);
  }
  const { seq } = snapshot;
  const present = snapshot.digests();
  const digests = reader.digestsAt(seq);
  const differing = tableNames.filter((table) => digests[table] !== present[table]);
  if (differing.length > 0)
    throw new HistorySpoiled(`rows of ${differing.join(', ')} at ${seq} differ from their digest`);
}
