/** Creates and locks a process's data folder. Only one process at a time can lock it, and only its owner can access it. */
import { chmodSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseBusy, DatabaseUnwritable, lockFile } from './sqlite.ts';

export interface DataFolder {
  readonly path: string;
  release(): void;
}

/** Creates and locks the folder. On failure, throws an error that tells the operator what to do. */
export function lockDataFolder(path: string): DataFolder {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new DatabaseUnwritable(`cannot create the data folder ${path}; choose another with --data`, {
      cause: error,
    });
  }
  try {
    const isOurs = isEmptyOrOurs(path);
    const lock = lockFile(join(path, 'lock.db'));
    if (isOurs) closeToOthers(path);
    return { path, release: () => lock.release() };
  } catch (error) {
    if (!(error instanceof DatabaseBusy)) throw error;
    throw new DatabaseBusy(
      `the data folder ${path} is in use by another process; stop it, or choose another folder with --data`,
      { cause: error },
    );
  }
}

/** Whether a folder is empty or a data folder. Any other folder keeps its permissions, because it may be shared. */
function isEmptyOrOurs(path: string): boolean {
  const names = readdirSync(path);
  return names.length === 0 || names.includes('lock.db');
}

/** Removes other users' permissions, which an earlier version or the umask may have left. Skips files of other owners. */
function closeToOthers(path: string): void {
  const databases = readdirSync(path).filter((name) => /\.db(\.aside)?(-wal|-shm)?$/.test(name));
  for (const each of [path, ...databases.map((name) => join(path, name))]) {
    const found = lstatSync(each, { throwIfNoEntry: false });
    const isMine = found !== undefined && !found.isSymbolicLink() && found.uid === process.getuid?.();
    if (isMine && (found.mode & 0o077) !== 0 && (found.mode & 0o1000) === 0)
      chmodSync(each, found.mode & 0o700);
  }
}

/** Whether a folder can be created or written to. It writes a file, because file modes do not show that a disk is full. */
export function canBeWritten(folder: string): boolean {
  const path = resolve(folder);
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return dirname(path) !== path && canBeWritten(dirname(path));
    const probe = join(path, `.headgate-doctor-${process.pid}`);
    writeFileSync(probe, '', { flag: 'wx', mode: 0o600 });
    rmSync(probe);
    return true;
  } catch {
    return false;
  }
}

/** Returns the paths in a data folder that other users can access. Skips files that do not belong to the folder's owner. */
export function openToOthers(folder: string): string[] {
  const lock = lstatSync(join(folder, 'lock.db'), { throwIfNoEntry: false });
  if (lock === undefined) return [];
  const isOpen = (path: string): boolean => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    const counts = found !== undefined && found.uid === lock.uid && (found.isFile() || path === folder);
    return counts && (found.mode & 0o077) !== 0;
  };
  return [folder, ...readdirSync(folder).map((name) => join(folder, name))].filter(isOpen);
}
