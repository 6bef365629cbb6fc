/**
 * Copies the state at one moment into a file of its own. Copying takes as long as the state is large, so it runs on a
 * thread of its own, over a connection of its own; the fold continues meanwhile. What the copy holds is read by this thread, which
 * has loaded the schemas that this takes: loading them costs the other thread more than the copy of a small state.
 */
import { createHash } from 'node:crypto';
import { closeSync, createReadStream, openSync, statSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { mapSqliteError, openDatabase } from '../../shared/runtime/sqlite.ts';
import { taskOnThread } from '../../shared/runtime/worker-thread.ts';

export interface CopyPlan {
  /** Path of the state. */
  readonly from: string;
  /** Must not exist. */
  readonly to: string;
}

export interface CopyFile {
  readonly bytes: number;
  /** Of the file, hex. */
  readonly sha256: string;
}

/** Rejects with the errors of shared/runtime/sqlite.ts, or their names and messages. */
export function copyOnThread(plan: CopyPlan): Promise<CopyFile> {
  const entry = new URL('./copy-thread.js', import.meta.url);
  return taskOnThread({ entry, data: plan, isRef: true, task: () => copySnapshot(plan) }).result;
}

export async function copySnapshot({ from, to }: CopyPlan): Promise<CopyFile> {
  // Created first, because SQLite would create it with default permissions.
  closeSync(openSync(to, 'wx', 0o600));
  const db = openDatabase(from, { durability: 'process', readOnly: true });
  try {
    // One statement, so that position and rows in the file are of one moment.
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
