/**
 * Setup for every file of process tests. Fails after the file's tests if a process that they started is still running, if a
 * socket of the worker still listens, or if a temporary file remains.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { endCommands } from './commands.ts';
import { until } from './until.ts';

// Test files share workers. So after each file the environment is reset to what the worker started with.
const environment = { ...process.env };
const folder = mkdtempSync(join(tmpdir(), 'headgate-test-'));
// Everything created through tmpdir() goes to this folder, and child processes can be recognised because they inherit the
// variable.
process.env['TMPDIR'] = folder;

/** Returns the running processes that inherited the folder's name, including orphans. */
function processes(): { readonly pid: number; readonly command: string }[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.flatMap((name) => {
    try {
      if (!readFileSync(`/proc/${name}/environ`, 'utf8').includes(`TMPDIR=${folder}\0`)) return [];
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').slice(0, 200);
      return [{ pid: Number(name), command }];
    } catch {
      // The process has already ended, or it belongs to another user.
      return [];
    }
  });
}

/** Returns the addresses on which this worker listens, including sockets that would not keep it alive. */
function listening(): string[] {
  const own = readdirSync('/proc/self/fd').map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      return '';
    }
  });
  const rows = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').split('\n'));
  return rows.flatMap((row) => {
    const [, address = '', , state, , , , , , inode] = row.trim().split(/\s+/);
    const isListening = state === '0A' && own.includes(`socket:[${inode}]`);
    return isListening ? [address] : [];
  });
}

/** False on systems without /proc, which cannot be checked. */
const isChecked = existsSync('/proc/self/fd');
/** Sockets that an earlier test file left in this worker. They do not count against this file. */
const inherited = isChecked ? listening() : [];

function leaks(): string[] {
  return [
    ...processes().map(({ pid, command }) => `process ${pid}: ${command}`),
    ...listening()
      .filter((address) => !inherited.includes(address))
      .map((address) => `a listening socket, ${address}`),
    // npm on Node 22 and later keeps its compile cache in this folder.
    ...readdirSync(folder).flatMap((name) => (name === 'node-compile-cache' ? [] : [`temporary ${name}`])),
  ];
}

function restoreEnvironment(): void {
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name];
  Object.assign(process.env, environment);
}

afterAll(async () => {
  restoreEnvironment();
  await endCommands();
  if (!isChecked) return rmSync(folder, { recursive: true, force: true });
  // Processes that were signalled but not awaited get some time to end.
  await until(() => leaks().length === 0, 5000).catch(() => undefined);
  const left = leaks();
  for (const { pid } of processes()) process.kill(pid, 'SIGKILL');
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`these tests left behind:\n${left.join('\n')}`);
});
