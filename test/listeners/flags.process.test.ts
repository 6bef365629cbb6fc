/** Tests each process's flags for the address of health and metrics, and for the number of connections per listener. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runCommand } from '../support/commands.ts';
import { type Launch, startProcess } from '../support/processes.ts';
import { endpointOf, exchange, RawPeer, statusesIn } from '../support/raw-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-listener-flags-'));
const log = `sqlite:${join(dir, 'log')}`;
const running: Launch<unknown>[] = [];

interface Ready {
  readonly url?: string;
  readonly api?: string;
  readonly admin?: string;
  readonly metrics: string;
}

async function start(name: string, args: readonly string[], env = {}): Promise<Launch<Ready>> {
  const environment = { HEADGATE_OPERATOR_TOKEN: 'flags-test-operator-token', ...env };
  const started = await startProcess<Ready>({ dir, name, args, env: environment });
  running.push(started);
  return started;
}

const free = ['--port', '0', '--metrics-port', '0'];
const commands: Readonly<Record<string, readonly string[]>> = {
  'control-plane': ['--log', log, '--data', join(dir, 'plane'), ...free],
  gateway: ['--log', log, '--data', join(dir, 'gateway'), '--drain-delay', '0', ...free],
  'sim-node': free,
  'node-agent': [
    ...['--control-plane', 'http://127.0.0.1:9', '--node', 'n', '--engine', 'http://127.0.0.1:9'],
    ...['--drain-timeout', '0', '--metrics-port', '0'],
  ],
};
const token = { HEADGATE_NODE_TOKEN: 'flags-test-node-token-0001' };

let plane: Launch<Ready>;
beforeAll(async () => {
  // Creates a log that the gateway can follow.
  plane = await start('plane-first', ['control-plane', '--log', log, '--data', join(dir, 'first'), ...free]);
  running.pop();
});
afterEach(async () => {
  for (const process of running.splice(0)) await process.end('SIGKILL');
});
afterAll(async () => {
  await plane.end('SIGKILL');
  rmSync(dir, { recursive: true, force: true });
});

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`;

/** Whether `/livez` answers at this address of the machine. */
async function livesAt(metrics: string, host: string): Promise<boolean> {
  const answer = await exchange({ ...endpointOf(metrics), host }, get('/livez')).catch(() => '');
  return statusesIn(answer)[0] === 200;
}

describe.each(Object.keys(commands))('%s', (command) => {
  const args = [command, ...(commands[command] ?? [])];

  test('keeps health and metrics on loopback, whatever its other addresses', async () => {
    const { ready } = await start(command, args, { ...token, HEADGATE_BIND: '0.0.0.0' });
    expect(new URL(ready.metrics).hostname).toBe('127.0.0.1');
    expect(await livesAt(ready.metrics, '127.0.0.1')).toBe(true);
    expect(await livesAt(ready.metrics, '127.0.0.2')).toBe(false);
    const other = ready.api ?? ready.admin;
    if (other !== undefined) {
      const answer = await exchange({ ...endpointOf(other), host: '127.0.0.2' }, get('/nothing'));
      expect(statusesIn(answer)).toHaveLength(1);
    }
    const metrics = await exchange(endpointOf(ready.metrics), get('/metrics'));
    expect(metrics).toMatch(/^headgate_connections_open\{listener="metrics"\} 1$/m);
  });

  test('serves them on --metrics-bind, and refuses connections beyond --max-connections', async () => {
    const address = '127.0.0.3';
    const limits = command === 'node-agent' ? [] : ['--max-connections', '4', ...perAddress];
    // Half of the processes get the address from the environment variable instead of the flag.
    const isByVariable = ['gateway', 'node-agent'].includes(command);
    const { ready, stderr } = isByVariable
      ? await start(command, [...args, ...limits], { ...token, HEADGATE_METRICS_BIND: address })
      : await start(command, [...args, ...limits, '--metrics-bind', address], token);
    expect(await livesAt(ready.metrics, address)).toBe(true);
    expect(await livesAt(ready.metrics, '127.0.0.1')).toBe(false);
    if (limits.length > 0) await expectLimited(ready, stderr);
  });
});

const perAddress = ['--max-connections-per-address', '4'];

/** Opens eight connections. Four must be served, and the others must be counted as refused. */
async function expectLimited({ api, admin, url, metrics }: Ready, stderr: () => string): Promise<void> {
  const endpoint = endpointOf(api ?? admin ?? url ?? '');
  const request = get('/nothing').replace('close', 'keep-alive');
  const served: RawPeer[] = [];
  for (let n = 0; n < 8; n++) {
    const peer = await RawPeer.open(endpoint).catch(() => undefined);
    await peer?.send(request);
    if (peer && (await peer.received(/HTTP\/1\.1 \d{3}/))) served.push(peer);
  }
  expect(served).toHaveLength(4);
  const health = { ...endpointOf(metrics), host: new URL(metrics).hostname };
  expect(await exchange(health, get('/metrics'))).toMatch(
    /^headgate_connections_refused_total\{listener="(api|admin|node)",reason="listener"\} 4$/m,
  );
  expect(stderr()).toContain('connections refused');
  for (const peer of served) peer.close();
}

test.each(['0', '-1', 'many'])('--max-connections %s is refused at the start', async (value) => {
  const { stderr } = await runCommand(['sim-node', ...free, '--max-connections', value], {});
  expect(stderr).toContain(
    `'--max-connections <n>' argument '${value}' is invalid. It must be a whole number`,
  );
});
