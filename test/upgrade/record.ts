/**
 * Records the data folders of a small fleet of an earlier version, for test/upgrade/recorded.process.test.ts:
 * `node dist/test/upgrade/record.js BINARY FOLDER`. The gateway is killed while rows wait in its outbox.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { startSimNode } from '../../dev/simulator/sim-node.ts';
import { startProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';

const [binary = '', folder = ''] = process.argv.slice(2);
const dir = resolve(folder);
mkdirSync(dir, { recursive: true });
const token = 'operator-token-of-the-upgrade';
const env = {
  HEADGATE_LOG: `sqlite:${join(dir, 'log')}`,
  HEADGATE_OPERATOR_TOKEN: token,
  HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-the-upgrade',
};
const requests = 5;

function start<Ready>(kind: string, name: string) {
  const args = [kind, '--data', join(dir, name), '--name', name, '--port', '0', '--metrics-port', '0'];
  return startProcess<Ready>({ dir, name, args, env, binary });
}

const node = await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
const plane = await start<{ admin: string }>('control-plane', 'cp');
const admin = new DevAdmin(plane.ready.admin, token);
await admin.apply({
  version: 1,
  models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
  tiers: [{ id: 'Wide', models: '*', monthlyTokens: 1_000_000 }],
  pool: { models: ['echo-small'], nodes: [{ id: 'pool-1', url: node.url, dialect: 'vllm' }] },
  organisations: [{ id: 'acme', name: 'Acme', tier: 'Wide', anchor: '2026-01-01' }],
} as unknown as Parameters<DevAdmin['apply']>[0]);
const kept = await admin.createKey('acme', 'kept');
const revoked = await admin.createKey('acme', 'revoked');
await admin.call('POST', `/keys/${revoked.id}/revoke`);
const gateway = await start<{ api: string }>('gateway', 'gw');

async function complete(): Promise<number> {
  const response = await fetch(`${gateway.ready.api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${kept.value}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] }),
  });
  await response.text();
  return response.status;
}

await until(async () => (await complete()) === 200, 30_000);
for (let n = 1; n < requests; n++) await complete();
const usage = () => admin.call('GET', '/usage?organisation=acme');
await until(async () => (await usage())['requests'] === requests, 30_000);
const { log, position } = (await admin.call('GET', '/status')) as unknown as {
  log: string;
  position: number;
};
const facts = { kept: kept.value, revoked: revoked.value, usage: await usage(), log, position };
writeFileSync(join(dir, 'facts.json'), `${JSON.stringify(facts, null, 2)}\n`);
await gateway.end('SIGTERM');
await plane.end('SIGTERM');
await node.close();
