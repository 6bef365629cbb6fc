/**
 * Set up for every file of tests with processes: once its tests are over, no process that they started runs, nothing
 * listens in the worker, and their folder for temporary files is empty.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { endCommands } from './commands.ts';
import { until } from './until.ts';

// Files share workers, and each has the environment that the worker started with.
const environment = { ...process.env };
const folder = mkdtempSync(join(tmpdir(), 'headgate-test-'));
// All that the tests and their processes make with tmpdir() is in it, and its name in the environment marks them.
process.env['TMPDIR'] = folder;

/** The processes that inherited the name of the folder; an orphan is among them. */
function processes(): { readonly pid: number; readonly command: string }[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.flatMap((name) => {
    try {
      if (!readFileSync(`/proc/${name}/environ`, 'utf8').includes(`TMPDIR=${folder}\0`)) return [];
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').slice(0, 200);
      return [{ pid: Number(name), command }];
    } catch {
      // It has ended, or is of another user.
      return [];
    }
  });
}

/** Addresses of sockets of this worker that listen, also of those that would not keep it alive. */
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

/** A system without /proc is not checked. */
const isChecked = existsSync('/proc/self/fd');
/** What an earlier file in this worker left is its fault alone. */
const inherited = isChecked ? listening() : [];

function leaks(): string[] {
  return [
    ...processes().map(({ pid, command }) => `process ${pid}: ${command}`),
    ...listening()
      .filter((address) => !inherited.includes(address))
      .map((address) => `a listening socket, ${address}`),
    // npm on Node 22 and later keeps its compiled code there.
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
  // A process that was ended without waiting for it gets a moment.
  await until(() => leaks().length === 0, 5000).catch(() => undefined);
  const left = leaks();
  for (const { pid } of processes()) process.kill(pid, 'SIGKILL');
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`these tests left behind:\n${left.join('\n')}`);
});
