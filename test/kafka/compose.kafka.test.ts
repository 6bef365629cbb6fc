/**
 * Runs the services of docker-compose.yml without Docker, from the parsed file. Each service has its own loopback address
 * instead of its host name, so every port, flag and variable is used as written. Images, volumes and health checks are not
 * tested here.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Launch, startProcess } from '../support/processes.ts';
import { type Kafka, startKafka } from './broker.ts';

interface Service {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly ports?: readonly string[];
  readonly profiles?: readonly string[];
  readonly volumes?: readonly string[];
}

const operatorToken = 'a-token-of-more-than-sixteen-characters';
const file = readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8')
  .replace(/\$\{HEADGATE_OPERATOR_TOKEN:\?[^}]*\}/, operatorToken)
  .replace(/\$\{HEADGATE_GATEWAY_TOKEN:\?[^}]*\}/, 'a-gateway-token-of-its-own');
const { services, volumes } = parse(file, { merge: true }) as {
  services: Readonly<Record<string, Service>>;
  volumes: object;
};
/** Services that start without a profile. */
const fleet = Object.entries(services).filter(([, { profiles }]) => profiles === undefined);
const names = fleet.map(([name]) => name);
const addresses = new Map(names.map((name, index) => [name, `127.77.0.${index + 1}`]));
const address = (name: string) => addresses.get(name)!;

/**
 * Replaces host names with addresses. A service that listens on all addresses of its container listens on its own address
 * here.
 */
function onLoopback(text: string, own: string): string {
  let words = text.replaceAll('0.0.0.0', own).replaceAll(/:\/\/(localhost)?:/g, `://${own}:`);
  for (const [name, host] of addresses)
    words = words.replaceAll(new RegExp(`(?<=[/@])${name}(?=:)`, 'g'), host);
  return words;
}

const dir = mkdtempSync(join(tmpdir(), 'headgate-compose-'));
const started = new Map<string, Launch<unknown>>();
let kafka: Kafka | undefined;

function startBroker(): Promise<Kafka> {
  const { environment = {} } = services['kafka']!;
  const properties = Object.entries(environment)
    .filter(([name]) => name.startsWith('KAFKA_') && name !== 'KAFKA_LOG_DIRS')
    .map(([name, value]) => [name.slice('KAFKA_'.length).toLowerCase().replaceAll('_', '.'), value])
    .map(([name, value]) => `${name}=${onLoopback(String(value), address('kafka'))}`);
  return startKafka({ properties, listener: { host: address('kafka'), port: 19092 } });
}

async function startService(name: string): Promise<void> {
  const { command = [], environment = {} } = services[name]!;
  const env = Object.entries(environment).map(([variable, value]) => [
    variable,
    variable === 'HEADGATE_DATA' ? join(dir, name) : onLoopback(String(value), address(name)),
  ]);
  const args = command.map((word) => onLoopback(word, address(name)));
  started.set(name, await startProcess({ dir, name, args, env: Object.fromEntries(env), timeoutMs: 60_000 }));
}

beforeAll(async () => {
  kafka = await startBroker();
  // Waits for all services, so that those that run can be ended if another fails to start.
  const outcomes = await Promise.allSettled(names.filter((name) => name !== 'kafka').map(startService));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}, 120_000);
afterAll(async () => {
  await Promise.all([...started.values()].map(({ end }) => end('SIGKILL')));
  await kafka?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const run = promisify(execFile);
const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;

/** Runs `headgate …` against one of the control planes and returns its output, parsed as JSON. */
async function cli(controlPlane: string, ...words: readonly string[]): Promise<Record<string, unknown>> {
  const env = {
    ...process.env,
    HEADGATE_ADMIN: `http://${address(controlPlane)}:8081`,
    HEADGATE_TOKEN: operatorToken,
  };
  const { stdout } = await run(process.execPath, [binary, ...words, '-o', 'json'], { env });
  return JSON.parse(stdout);
}

/** Returns the status of a completion. The Host header is the one that callers on the host machine would use. */
async function ask(gateway: string, key: unknown): Promise<number> {
  const { statusCode, body } = await request(`http://${address(gateway)}:8080/v1/chat/completions`, {
    method: 'POST',
    headers: { host: '127.0.0.1', authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] }),
  });
  await body.dump();
  return statusCode;
}

test('every volume that a service in the file uses is declared', () => {
  const used = Object.values(services).flatMap((service) =>
    (service.volumes ?? []).filter((it) => !it.startsWith('./')).map((it) => it.split(':')[0]),
  );
  expect(new Set(used)).toEqual(new Set(Object.keys(volumes)));
});

test('every published port in the file is one on which its service listens', async () => {
  for (const [name, { ports = [] }] of fleet) {
    if (name === 'kafka') continue;
    for (const port of ports) {
      const answer = await fetch(`http://${address(name)}:${port.split(':').at(-1)}/`);
      expect([name, port, answer.headers.get('content-type')]).toEqual([
        name,
        port,
        expect.stringContaining('application/json'),
      ]);
      await answer.arrayBuffer();
    }
  }
});

test('a fleet applied at one control plane is served by both gateways, and both confirm a revocation', async () => {
  const fleet = join(dir, 'fleet.yaml');
  writeFileSync(
    fleet,
    JSON.stringify({
      version: 1,
      models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
      tiers: [{ id: 'Platinum', models: '*' }],
      pool: {
        models: ['echo-small'],
        nodes: [{ id: 'pool-1', url: onLoopback('http://node:9001', ''), dialect: 'vllm' }],
      },
      organisations: [{ id: 'acme', name: 'Acme', tier: 'Platinum' }],
    }),
  );
  await cli('control-plane-1', 'apply', '-f', fleet);
  const key = await cli(
    'control-plane-2',
    'key',
    'create',
    '--org',
    'acme',
    '--name',
    'k',
    '--expires',
    'never',
  );
  for (const gateway of ['gateway-1', 'gateway-2'])
    await expect.poll(() => ask(gateway, key['value']), { timeout: 30_000 }).toBe(200);
  const revoked = await cli('control-plane-1', 'key', 'revoke', String(key['id']), '--yes', '--wait=30s');
  expect(revoked['gateways']).toEqual(
    ['gateway-1', 'gateway-2'].map((name) => expect.objectContaining({ name, confirmed: true })),
  );
  for (const gateway of ['gateway-1', 'gateway-2']) expect(await ask(gateway, key['value'])).toBe(401);
});
