// Tests that only the owner can read or write the files and folders that a process or a CLI command creates.
import { spawnSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Launch, startProcess } from '../support/processes.ts';

const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
const root = mkdtempSync(join(tmpdir(), 'headgate-modes-'));
const context = join(root, 'context', 'context.json');
const ready = join(root, 'ready');
const data = join(root, 'data');
const out = join(root, 'out');
const temporary = join(root, 'tmp');
const env = { HEADGATE_CONTEXT: context, TMPDIR: temporary };
let umaskBefore: number;
let dev: Launch<object>;
const start = (): Promise<Launch<object>> =>
  startProcess({
    dir: ready,
    name: 'dev',
    args: [
      'dev',
      '--data',
      data,
      '--gateways',
      '1',
      '--port',
      '0',
      '--admin-port',
      '0',
      '--metrics-port',
      '0',
    ],
    env,
    timeoutMs: 90_000,
  });

beforeAll(async () => {
  // The most permissive umask that a process can inherit.
  umaskBefore = process.umask(0);
  for (const folder of [ready, out, temporary]) mkdirSync(folder, { mode: 0o700 });
  dev = await start();
});
afterAll(async () => {
  process.umask(umaskBefore);
  await dev?.end();
  rmSync(root, { recursive: true, force: true });
});

function everything(folder: string): string[] {
  return [
    folder,
    ...readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? everything(join(folder, entry.name)) : [join(folder, entry.name)],
    ),
  ];
}
/** Returns the paths that other users can access, with their modes. A file may disappear meanwhile. */
function open(paths: readonly string[]): string[] {
  return paths.flatMap((path) => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    return found && (found.mode & 0o077) !== 0 ? [`${(found.mode & 0o777).toString(8)} ${path}`] : [];
  });
}
function cli(...argv: string[]): void {
  const run = spawnSync(process.execPath, [binary, ...argv], {
    cwd: out,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect([argv, run.status, run.stderr]).toEqual([argv, 0, expect.any(String)]);
}

test('no file written by a service or its command line is open to others', () => {
  cli('key', 'create', '--org', 'acme', '--name', 'k', '--expires', 'never', '--out', 'key');
  cli('node', 'token', 'create', 'pool-1', '--out', 'token');
  cli('events', 'export', '--out', 'log.jsonl');
  cli('replay', 'log.jsonl');
  const made = everything(root);
  const names = made.map((path) => path.slice(path.lastIndexOf('/') + 1));
  for (const name of [
    'state.db',
    'lock.db',
    'usage.db',
    'outbox.db',
    'headgate.control.db',
    'operator-token',
  ])
    expect(names).toContain(name);
  for (const name of ['context.json', 'demo-keys.json', 'key', 'token', 'log.jsonl'])
    expect(names).toContain(name);
  expect(open(made)).toEqual([]);
  // No copy of the state may remain anywhere, and in particular not in the shared temporary folder.
  expect(names.filter((name) => /snapshot/.test(name))).toEqual(['snapshot-copies']);
  expect(readdirSync(temporary)).toEqual([]);
});

test('a start closes files left open by an earlier version or a mount', async () => {
  await dev.end();
  const folders = ['control-plane', 'gateway-1'].map((name) => join(data, name));
  for (const folder of folders) {
    chmodSync(folder, 0o755);
    for (const file of readdirSync(folder)) if (file.endsWith('.db')) chmodSync(join(folder, file), 0o644);
  }
  expect(open(folders.flatMap(everything)).length).toBeGreaterThan(5);
  dev = await start();
  expect(open(everything(root))).toEqual([]);
});
