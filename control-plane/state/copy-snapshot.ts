/**
 * Copies the state at one moment into a file, on its own thread and connection, while the fold continues. The calling
 * thread reads the copy's position and digest, because loading the schemas on another thread would cost more than copying a
 * small state.
 */
import { createHash } from 'node:crypto';
import { closeSync, createReadStream, openSync, statSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { mapSqliteError, openDatabase } from '../../shared/runtime/sqlite.ts';
import { taskOnThread } from '../../shared/runtime/worker-thread.ts';

export interface CopyPlan {
  /** Path of the state file. */
  readonly from: string;
  /** Path of the copy. The file must not exist yet. */
  readonly to: string;
}

export interface CopyFile {
  readonly bytes: number;
  /** SHA-256 of the file, in hex. */
  readonly sha256: string;
}

/** Copies on a new thread. Rejects with errors that have the names and messages of those in `shared/runtime/sqlite.ts`. */
export function copyOnThread(plan: CopyPlan): Promise<CopyFile> {
  const entry = new URL('./copy-thread.js', import.meta.url);
  return taskOnThread({ entry, data: plan, isRef: true, task: () => copySnapshot(plan) }).result;
}

export async function copySnapshot({ from, to }: CopyPlan): Promise<CopyFile> {
  // Creates the file first, because SQLite would create it with default permissions.
  closeSync(openSync(to, 'wx', 0o600));
  const db = openDatabase(from, { durability: 'process', readOnly: true });
  try {
    // A single statement copies position and rows, so that they belong to the same moment.
    db.prepare('VACUUM INTO ?').run(to);
  } catch (error) {
    throw mapSqliteError(error, to);
  } finally {
    db.close();
  }
  const sha256 = createHash('sha256');
  await pipeline(createReadStream(to), sha256);
  return { bytes: statSync(to).size, sha256: sha256.digest('hex') };
}
