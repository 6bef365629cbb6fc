/** Collects facts about this machine for `doctor`. */
import { existsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { resolve } from 'node:path';
import type { DoctorFacts } from '../../control-plane/doctor/facts.ts';
import { dataFiles, isOvergrown } from '../../shared/runtime/data-files.ts';
import { canBeWritten, openToOthers } from '../../shared/runtime/data-folder.ts';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { loopback } from '../../shared/runtime/listener.ts';
import { openFilesMax } from '../../shared/runtime/open-files.ts';
import { readSetting } from '../../shared/runtime/settings.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';

/** Variables that contain the path of a file with a secret. */
const secretFiles = ['HEADGATE_SIGNING_KEY', 'HEADGATE_CONTEXT'] as const;

export interface MachineQuery {
  /** Data folder of a process on this machine. */
  readonly data: string | undefined;
  /** Ports that must be free, or undefined to skip this check. */
  readonly ports: readonly number[] | undefined;
}

export async function machineFacts(
  session: Session,
  { data, ports }: MachineQuery,
): Promise<NonNullable<DoctorFacts['machine']>> {
  const { io, globals } = session;
  const folder = data === undefined ? readContext(io).dataDir : resolve(io.cwd, data);
  const disk = await statfs(folder !== undefined && existsSync(folder) ? folder : io.cwd).catch(
    () => undefined,
  );
  const named = secretFiles.map((name) => readSetting(name, io.env));
  const secrets = [...named, globals.tokenFile]
    .filter((path): path is string => path !== undefined && path !== '-' && !path.includes('\n'))
    .map((path) => resolve(io.cwd, path));
  const fault = sqliteFault();
  const filesMax = openFilesMax();
  return {
    node: process.versions.node,
    ...(fault !== undefined && { sqliteFault: fault }),
    ...(filesMax !== undefined && { openFilesMax: filesMax }),
    ...(disk && { diskFreeBytes: disk.bavail * disk.bsize }),
    ...(isFolder(folder) && { overgrown: dataFiles(folder).filter(isOvergrown) }),
    readableSecrets: secrets.filter(isReadableByOthers),
    ...(ports && { takenPorts: await findTakenPorts(ports) }),
    unwritable: folder !== undefined && !canBeWritten(folder) ? [folder] : [],
    openToOthers: isFolder(folder) ? openToOthers(folder) : [],
  };
}

function isFolder(path: string | undefined): path is string {
  try {
    return path !== undefined && statSync(path).isDirectory();
  } catch {
    return false;
  }
}

const allAddresses = '0.0.0.0';

/** Returns the ports in use on this machine. Each port is tried only once, because two attempts would block each other. */
async function findTakenPorts(ports: readonly number[]): Promise<number[]> {
  const unique = [...new Set(ports)];
  const found = await Promise.all(
    unique.map(async (port) => (await isTaken(port, loopback)) || (await isTaken(port, allAddresses))),
  );
  return unique.filter((_, index) => found[index]);
}

/** Whether another process is using the port. Returns false if this process lacks the permission to open it. */
function isTaken(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error) => resolve(errorCode(error) === 'EADDRINUSE'));
    server.listen(port, host, () => server.close(() => resolve(false)));
  });
}

function sqliteFault(): string | undefined {
  try {
    openDatabase(':memory:', { durability: 'normal' }).close();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function isReadableByOthers(path: string): boolean {
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0;
}
