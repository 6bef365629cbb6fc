/** Opens the source of a restore: a state file (which may be in use), or an exported log, which is folded first. */
import { closeSync, readSync } from 'node:fs';
import { openNamed } from '../../shared/runtime/named-file.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { type TableName, tableNames } from '../../shared/snapshot/tables.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { CliError } from '../terminal/errors.ts';
import { exportedRecords } from './exported-log.ts';
import { openedState } from './state-file.ts';

export interface RestoreSource {
  readonly snapshot: Snapshot;
  /** Row count of each table, as text. */
  counts(): string[];
  close(): void;
}

const sqliteMagic = 'SQLite format 3\0';

/** Throws a CliError with exit 2 if the file is neither, or is damaged. */
export async function openRestoreSource(path: string): Promise<RestoreSource> {
  const snapshot = isSqlite(path) ? openState(path) : await foldExport(path);
  return {
    snapshot,
    counts: () => tableNames.filter((table) => table !== 'routes').map((table) => count(snapshot, table)),
    // Not snapshot.close(): that would write the clean-shutdown mark into another process's file.
    close: () => snapshot.db.close(),
  };
}

function isSqlite(path: string): boolean {
  try {
    const descriptor = openNamed(path);
    try {
      const first = Buffer.alloc(sqliteMagic.length);
      readSync(descriptor, first);
      return first.toString('latin1') === sqliteMagic;
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    throw unusable(path, error);
  }
}

function openState(path: string): Snapshot {
  let snapshot: Snapshot | undefined;
  try {
    snapshot = openedState(path);
    const { differing } = verify(snapshot.db);
    if (differing.length > 0) throw new Error(`rows of ${differing.join(', ')} do not match their digest`);
    return snapshot;
  } catch (error) {
    snapshot?.db.close();
    throw unusable(path, error);
  }
}

async function foldExport(path: string): Promise<Snapshot> {
  const snapshot = memorySnapshot();
  try {
    for await (const records of exportedRecords(path)) {
      snapshot.apply(records);
      if (snapshot.halt) throw new Error(`at position ${snapshot.halt.seq}: ${snapshot.halt.reason}`);
    }
    return snapshot;
  } catch (error) {
    snapshot.close();
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): CliError {
  if (error instanceof CliError) return error;
  return new CliError(`cannot restore from ${path}`, {
    type: 'InvalidFile',
    why: error instanceof Error ? error.message : String(error),
    next: 'use a state.db, or a file made by headgate snapshot save or headgate events export',
    cause: error,
  });
}

function count(snapshot: Snapshot, table: TableName): string {
  const rows = snapshot.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
  return `${rows} ${table.replaceAll('_', ' ')}${rows === 1 ? '' : 's'}`;
}
