/**
 * Tests a first start of `headgate dev` without its usual defaults: on another address, and in a working folder that cannot
 * be used.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { binary, type Launch, startProcess } from '../support/processes.ts';
import { rawRequest, requestText } from '../support/raw-http.ts';

interface Dev {
  readonly console: { readonly url: string };
  readonly gateways: readonly { readonly api: string; readonly play?: string }[];
}

const dir = mkdtempSync(join(tmpdir(), 'headgate-first-start-'));
let dev: Launch<Dev> | undefined;
afterAll(async () => {
  await dev?.end();
  rmSync(dir, { recursive: true, force: true });
});

test('if its context file cannot be written, dev warns and serves, under every name of its machine', async () => {
  // Not even root can create a folder with this name while a file has the name.
  writeFileSync(join(dir, '.headgate'), '');
  dev = await startProcess<Dev>({
    ...{ dir, name: 'dev', timeoutMs: 120_000, within: ['env', '-C', dir] },
    args: [
      ...['dev', '--data', join(dir, 'data'), '--bind', '0.0.0.0', '--gateways', '1', '--port', '0'],
      ...['--admin-port', '0', '--console-port', '0', '--metrics-port', '0', '--play-port', '0'],
    ],
    env: {
      HEADGATE_GATEWAY_TOKEN: undefined,
      HEADGATE_OPERATOR_TOKEN: undefined,
      HEADGATE_CONTEXT: undefined,
    },
  });
  expect(dev.stderr()).toContain(
    'warning: .headgate/context.json cannot be written (EEXIST), so the CLI does not find this fleet',
  );
  const { gateways, console } = dev.ready;
  const [{ api, play } = { api: '' }] = gateways;
  const statuses = (name: string): Promise<number[]> =>
    Promise.all(
      [`${api}/models`, console.url, play ?? ''].map(async (url) => {
        const { port, pathname: path } = new URL(url);
        return (await rawRequest(Number(port), requestText({ path, host: `${name}:${port}` }))).status;
      }),
    );
  expect(new URL(api).hostname).toBe('0.0.0.0');
  for (const host of ['0.0.0.0', '127.0.0.1', '192.0.2.7', hostname()])
    expect([host, ...(await statuses(host))]).toEqual([host, 200, 200, 200]);
  // Inside a container the name of its host machine is unknown, so requests for that name are refused.
  expect(await statuses('box.example')).toEqual([200, 421, 421]);
}, 240_000);

test('in a deleted folder, a command runs or explains that in a sentence', () => {
  const run = (...words: string[]): { status: number | null; stdout: string; stderr: string } => {
    const gone = join(dir, 'gone');
    mkdirSync(gone);
    const script = `cd "$1" && rmdir "$1" && shift && exec "$@"`;
    const env = { ...process.env, HEADGATE_ADMIN: 'http://127.0.0.1:1', HEADGATE_TOKEN: 'x'.repeat(20) };
    return spawnSync('sh', ['-c', script, 'sh', gone, process.execPath, binary, ...words], {
      ...{ env, encoding: 'utf8' },
    });
  };
  expect(run('help', 'exit-codes')).toMatchObject({ status: 0, stderr: '' });
  expect(run('key', 'list')).toMatchObject({ status: 7 });
  for (const words of [
    ['apply', '-f', 'fleet.yaml'],
    ['dev', '--data', 'd'],
  ])
    expect(run(...words)).toMatchObject({
      status: 2,
      stderr:
        'error[Usage]: the working folder no longer exists\n' +
        '  next  change to another folder and run the command again\n' +
        '  more  headgate help exit-codes (this is 2)\n',
    });
});
