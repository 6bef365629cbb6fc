/** What `doctor` checks of this machine. */
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { DoctorFacts } from '../../shared/doctor/facts.ts';
import { settingOf } from '../../shared/runtime/settings.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';

/** Variables that name a file with a secret. */
const secretFiles = ['HEADGATE_SIGNING_KEY', 'HEADGATE_CONTEXT'] as const;

export async function machineFacts(
  session: Session,
  data?: string,
): Promise<NonNullable<DoctorFacts['machine']>> {
  const { io, globals } = session;
  const folder = data === undefined ? readContext(io).dataDir : resolve(io.cwd, data);
  const disk = await statfs(folder !== undefined && existsSync(folder) ? folder : io.cwd).catch(
    () => undefined,
  );
  const named = secretFiles.map((name) => settingOf(name, io.env));
  const secrets = [...named, globals.tokenFile]
    .filter((path): path is string => path !== undefined && path !== '-')
    .map((path) => resolve(io.cwd, path));
  const fault = sqliteFault();
  const openFilesMax = openFiles();
  return {
    node: process.versions.node,
    ...(fault !== undefined && { sqliteFault: fault }),
    ...(openFilesMax !== undefined && { openFilesMax }),
    ...(disk && { diskFreeBytes: disk.bavail * disk.bsize }),
    readableSecrets: secrets.filter(isReadableByOthers),
    unwritable: folder !== undefined && existsSync(folder) && !isWritable(folder) ? [folder] : [],
  };
}

function sqliteFault(): string | undefined {
  try {
    openDatabase(':memory:', { durability: 'normal' }).close();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function openFiles(): number | undefined {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8');
    const max = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
    return max === undefined ? undefined : Number(max);
  } catch {
    return undefined;
  }
}

function isReadableByOthers(path: string): boolean {
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
