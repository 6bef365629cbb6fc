/**
 * Tests that every listener of every process uses a new certificate once its files are replaced, without a signal. A client
 * must trust a new authority once the file that NODE_EXTRA_CA_CERTS names contains it, if the Node version supports this.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import * as nodeTls from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type GatewayProcess, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { until } from '../support/until.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const shortMinutes = new URL('../support/short-minutes.mjs', import.meta.url).href;
const fleet = new ProcessFleet({
  env: {
    NODE_OPTIONS: `--import=${shortMinutes}`,
    HEADGATE_LOG_LEVEL: 'info',
    HEADGATE_NODE_TOKEN: 'a-token-of-a-node-0001',
  },
});
const mount = join(fleet.dir, 'tls');
const tls = ['--tls-cert', join(mount, 'tls.crt'), '--tls-key', join(mount, 'tls.key')];
const processes: Launch<unknown>[] = [];
let urls: string[];

/** Replaces the mounted certificate files through symbolic links, as the kubelet does. */
function swap(name: 'first' | 'second'): void {
  mkdirSync(join(mount, name), { recursive: true });
  copyFileSync(fixture(`${name}.pem`), join(mount, name, 'tls.crt'));
  copyFileSync(fixture(`${name}.key`), join(mount, name, 'tls.key'));
  symlinkSync(name, join(mount, '..data_tmp'));
  renameSync(join(mount, '..data_tmp'), join(mount, '..data'));
  for (const file of ['tls.crt', 'tls.key'])
    if (!existsSync(join(mount, file))) symlinkSync(`..data/${file}`, join(mount, file));
}

/** Returns the common name of the certificate that a new connection receives. */
async function shown(url: string): Promise<string> {
  const { hostname: host, port } = new URL(url);
  const socket = nodeTls.connect({ host, port: Number(port), rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN).split('.')[0] ?? '';
}

beforeAll(async () => {
  swap('first');
  const plane: Plane = await fleet.serve('control-plane', 'cp', [...tls, '--console-port', '0']);
  const gateway: GatewayProcess = await fleet.serve('gateway', 'gw', [...tls, '--play-port', '0']);
  const node: Launch<{ url: string; metrics: string }> = await fleet.start('node', [
    'sim-node',
    '--port',
    '0',
    ...tls,
  ]);
  const place = ['--node', 'n-1', '--engine', node.ready.url, '--control-plane', plane.ready.admin];
  const agent: Launch<{ metrics: string }> = await fleet.start('agent', [
    'node-agent',
    ...place,
    '--metrics-port',
    '0',
    ...tls,
  ]);
  processes.push(plane, gateway, node, agent);
  urls = processes
    .flatMap(({ ready }) => Object.values(ready as object))
    .filter((value) => typeof value === 'string' && value.startsWith('https:'));
}, 120_000);
afterAll(() => fleet.close());

test('every listener of every process uses a replaced certificate', async () => {
  // The nine addresses are the API, the visitors' page, the admin API, the console, the node, and four health endpoints. The
  // list contains the node's address twice.
  expect(new Set(urls.map((url) => new URL(url).host)).size).toBe(9);
  const all = () => Promise.all(urls.map(shown));
  expect(new Set(await all())).toEqual(new Set(['first']));
  swap('second');
  await until(async () => (await all()).every((name) => name === 'second'));
  for (const each of processes)
    expect(each.stderr().match(/"event":"tls\.reloaded"/g), each.stderr()).toHaveLength(1);
});

test('new connections trust a replaced authority, or the log asks for a restart', () => {
  copyFileSync(fixture('second.pem'), join(fleet.dir, 'ca.pem'));
  const child = spawnSync(
    process.execPath,
    [new URL('../support/new-authority.mjs', import.meta.url).pathname],
    {
      encoding: 'utf8',
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        NODE_EXTRA_CA_CERTS: join(fleet.dir, 'ca.pem'),
        FIXTURES: fixture(''),
      },
    },
  );
  const can = 'setDefaultCACertificates' in nodeTls;
  expect([child.status, child.stderr]).toEqual([0, '']);
  expect(JSON.parse(child.stdout)).toEqual(
    can
      ? {
          before: 'refused',
          after: 'trusted',
          kept: 'trusted',
          lines: [
            'authorities reloaded',
            'the new authorities cannot be used; the previous ones stay in use',
          ],
        }
      : {
          ...{ before: 'refused', after: 'refused', kept: 'refused' },
          lines: [
            'the authorities changed, but this version of Node reads them only when it starts; restart this process',
            'the new authorities cannot be used; the previous ones stay in use',
          ],
        },
  );
});
