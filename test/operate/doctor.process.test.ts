import { openSync, writeFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ProcessFleet, smallFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { until } from '../support/until.ts';

type Plane = Launch<{ readonly admin: string; readonly metrics: string }>;

const fleet = new ProcessFleet();
let plane: Plane;
let node: Launch<{ readonly url: string }>;
let gateway: Launch<{ readonly api: string }>;
let env: Record<string, string>;

beforeAll(async () => {
  plane = await fleet.serve('control-plane', 'cp');
  node = await fleet.simNode('node');
  await fleet.admin(plane).apply(smallFleet(node.ready.url));
  gateway = await fleet.serve('gateway', 'gw');
  env = { HEADGATE_ADMIN: plane.ready.admin };
});
afterAll(() => fleet.close());

const doctor = (...more: string[]) => fleet.cli(['doctor', ...more], env);

test('a healthy fleet gives one line and exit code 0', async () => {
  let run = await doctor('--skip', 'machine');
  await until(async () => {
    run = await doctor('--skip', 'machine');
    return run.code === 0 && run.stdout.split('\n').length === 2;
  }, 60_000);
  expect(run.stdout).toMatch(/^All \d+ checks passed, position \d+\n$/);
  expect(run.stderr).toBe('');
});

test('past states are read from the history thread, by position and by time', async () => {
  const admin = fleet.admin(plane);
  const made = await admin.call('POST', '/keys', { organisation: 'acme', name: 'one', expires: '30d' });
  await admin.call('POST', `/keys/${made['id']}/revoke`);
  const then = await fleet.cli(['key', 'list', '--at', String(made['position']), '-o', 'json'], env);
  expect([then.code, then.stderr]).toEqual([0, '']);
  expect(JSON.parse(then.stdout)).toMatchObject({ items: [{ id: made['id'], state: 'active' }] });
  const newest = await fleet.cli(
    ['events', 'list', '--newest', '--key', String(made['id']), '-o', 'json'],
    env,
  );
  expect((JSON.parse(newest.stdout).items as { type: string }[]).map(({ type }) => type)).toEqual([
    'key.revoked',
    'key.created',
  ]);
  const refused = await fleet.cli(['gateway', 'list', '--at', '3'], env);
  expect([refused.code, refused.stderr.split('\n')[0]]).toEqual([
    2,
    'error[InvalidCommand]: GET gateways shows only the present',
  ]);
});

test('a live probe finds foreign and missing stacks alike, and fails if a proxy answers differently', async () => {
  const admin = fleet.admin(plane);
  await admin.call('POST', '/organisations', { id: 'elm', name: 'Elm' });
  await admin.call('POST', '/stacks', { organisation: 'elm', id: 'stk-elm-tree-1' });
  const { value } = await admin.call('POST', '/keys', { organisation: 'acme', name: 'p', expires: 'never' });
  const keyFile = join(fleet.dir, 'probe.key');
  writeFileSync(keyFile, String(value), { mode: 0o600 });
  const argumentsFor = (url: string) => [
    ...['doctor', '--only', 'gateways', '-o', 'json', '--probe', url],
    ...['--key-file', keyFile, '--stack', 'stk-elm-tree-1'],
  ];
  const probe = async (url: string): Promise<unknown> =>
    (
      JSON.parse((await fleet.cli(argumentsFor(url), env)).stdout).checks as { code: string; level: string }[]
    ).find(({ code }) => code === 'HG4010')?.level;
  expect(await probe(gateway.ready.api.replace('/v1', ''))).toBe('ok');
  const proxy = createServer((request, response) => response.end(String(request.headers.host)));
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port } = proxy.address() as AddressInfo;
  expect(await probe(`http://127.0.0.1:${port}`)).toBe('fail');
  proxy.close();
});

test('a history damaged while the process was down is rebuilt', async () => {
  await plane.end('SIGTERM');
  const file = openSync(join(fleet.dir, 'cp', 'history.db'), 'r+');
  writeSync(file, Buffer.alloc(4096, 7), 0, 4096, 8192);
  plane = await fleet.serve('control-plane', 'cp');
  env = { HEADGATE_ADMIN: plane.ready.admin };
  const status = await fleet.admin(plane).call('GET', '/status');
  const at = String(Number(status['position']) - 1);
  const read = () => fleet.cli(['org', 'get', 'acme', '--at', at, '-o', 'json'], env);
  await until(async () => (await read()).code === 0, 60_000);
  expect(JSON.parse((await read()).stdout)).toMatchObject({ id: 'acme' });
});

test('a node that is down is named with its code and exit 1, and readyz shows the state of processes', async () => {
  await node.end('SIGKILL');
  let run = await doctor('--only', 'nodes,models');
  await until(async () => {
    run = await doctor('--only', 'nodes,models');
    return run.code === 1 && run.stdout.includes('HG5001');
  }, 60_000);
  expect(run.stdout).toContain('⨉ HG5001  pool-1: the node is down');
  expect(run.stdout).toContain('⨉ HG6001  pool/echo-small: installed, but not loaded on any serving node');
  expect(run.stdout).toContain('more  docs/errors/HG5001.md');
  const ready = await fetch(`${plane.ready.metrics}/readyz?verbose`);
  expect([ready.status, await ready.text()]).toEqual([200, expect.stringContaining('[+]gateways')]);
});

test('without a control plane the exit code is 7, and --pre checks only the machine', async () => {
  await plane.end('SIGKILL');
  expect((await doctor('--only', 'log')).code).toBe(7);
  const pre = await fleet.cli(['doctor', '--pre', '-o', 'json'], { HEADGATE_ADMIN: '' });
  expect(JSON.parse(pre.stdout)).toMatchObject({ fail: 0 });
  expect((await fleet.cli(['doctor', '--only', 'moon'], env)).code).toBe(2);
});
