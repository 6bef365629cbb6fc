/**
 * Tests that `headgate dev` gives its gateways their own token and the nodes' credentials, but nothing that grants operator
 * rights.
 */
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { askAdmin } from '../support/ask-admin.ts';
import { type Launch, startDev } from '../support/processes.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly pids: Readonly<Record<string, number>>;
}

const dir = mkdtempSync(join(tmpdir(), 'headgate-dev-tokens-'));
let dev: Launch<Dev>;
beforeAll(async () => {
  const token = 'operator-token-of-the-test';
  const env = { HEADGATE_OPERATOR_TOKEN: token, HEADGATE_TOKEN: token };
  dev = await startDev<Dev>(dir, ['--node-credentials', dir, '--no-demo', '--gateways', '1'], env);
}, 60_000);
afterAll(async () => {
  await dev?.end();
  rmSync(dir, { recursive: true, force: true });
});

test('dev’s gateway has its own token, which only opens snapshots', async () => {
  const file = join(dir, 'data', 'gateway-token');
  const gatewayToken = readFileSync(file, 'utf8').trim();
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(gatewayToken).not.toBe(dev.ready.operatorToken);
  const pid = dev.ready.pids['gateway-1'];
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  expect(environment).toContain(`HEADGATE_GATEWAY_TOKEN=${gatewayToken}`);
  expect(environment.join('\n')).not.toContain(dev.ready.operatorToken);
  expect(environment.join('\n')).not.toMatch(/^HEADGATE_(OPERATOR_TOKEN|TOKEN|SIGNING_KEY)=/m);

  const ask = async (path: string, method = 'GET'): Promise<number> => {
    const response = await askAdmin(dev.ready.admin, path, { method, token: gatewayToken });
    await response.arrayBuffer();
    return response.status;
  };
  expect(await ask('/snapshot')).toBe(200);
  for (const path of ['/keys', '/status', '/gateways', '/events'])
    expect([path, await ask(path)]).toEqual([path, 401]);
  expect(await ask('/gateways/gateway-1', 'DELETE')).toBe(401);
});

test('dev’s gateway gets the folder of node credentials, because it sends them', () => {
  const words = readFileSync(`/proc/${dev.ready.pids['gateway-1']}/cmdline`, 'utf8').split('\0');
  expect(words[words.indexOf('--node-credentials') + 1]).toBe(dir);
});
