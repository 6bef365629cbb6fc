/** Installs the npm package into an empty folder and starts it there. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { startProcess } from '../support/processes.ts';

const root = resolve(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly version: string;
};
const dir = mkdtempSync(join(tmpdir(), 'headgate-package-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test('installs into an empty folder, and serves there', async () => {
  const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', dir], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [{ filename, size }] = JSON.parse(packed);
  const folder = join(dir, 'empty');
  mkdirSync(folder);
  const words = ['install', join(dir, filename), '--prefer-offline', '--no-audit', '--no-fund'];
  // Removes npm's variables. If npm started Vitest, they would apply this project's settings.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
  const installed = spawnSync('npm', words, { cwd: folder, encoding: 'utf8', env });
  expect(installed.status, installed.stderr).toBe(0);
  console.log(`${filename}: ${size} bytes`);

  const binary = join(folder, 'node_modules/headgate/dist/cli/headgate.js');
  const asked = spawnSync(join(folder, 'node_modules/.bin/headgate'), ['--version'], { encoding: 'utf8' });
  expect([asked.status, asked.stdout.trim()]).toEqual([
    0,
    expect.stringMatching(new RegExp(`^${version.replaceAll('.', '\\.')}(\\+g[0-9a-f]{7}(\\.changed)?)?$`)),
  ]);
  const plane = await startProcess<{ admin: string; metrics: string; console: string }>({
    dir,
    name: 'plane',
    binary,
    args: [
      ...['control-plane', '--log', `sqlite:${join(dir, 'log')}`, '--data', join(dir, 'plane')],
      ...['--port', '0', '--metrics-port', '0', '--console-port', '0'],
    ],
    env: { HEADGATE_OPERATOR_TOKEN: 'operator-token-of-the-package' },
  });
  try {
    expect((await fetch(`${plane.ready.metrics}/readyz`)).status).toBe(200);
    expect((await fetch(plane.ready.console)).headers.get('content-type')).toContain('text/html');
  } finally {
    await plane.end();
  }
  expect(plane.child.exitCode).toBe(0);
}, 600_000);
