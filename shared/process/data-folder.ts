/** A process's data folder: made where it is missing, locked by its one process. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseBusy, DatabaseUnwritable, lockFile } from '../sqlite.ts';

export interface DataFolder {
  readonly path: string;
  release(): void;
}

/** Throws an Error that names the next step where the folder is in use or cannot be written. */
export function lockDataFolder(path: string): DataFolder {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new DatabaseUnwritable(`cannot make the data folder ${path}; choose another with --data`, {
      cause: error,
    });
  }
  try {
    const lock = lockFile(join(path, 'lock.db'));
    return { path, release: () => lock.release() };
  } catch (error) {
    if (!(error instanceof DatabaseBusy)) throw error;
    throw new DatabaseBusy(
      `the data folder ${path} is in use by another process; stop that one, or choose another folder with --data`,
      { cause: error },
    );
  }
}
