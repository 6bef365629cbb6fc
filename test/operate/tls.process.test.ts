/**
 * Tests a fleet in which every listener uses TLS with certificates of its own authority. Control plane, gateway, agent, node
 * and CLI must reach each other. A certificate is renewed while they run, and an unusable certificate must not replace a good
 * one.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Launch, startProcess } from '../support/processes.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
const ca = readFileSync(fixture('ca.pem'));
const dir = mkdtempSync(join(tmpdir(), 'headgate-tls-'));
const files = { cert: join(dir, 'tls.pem'), key: join(dir, 'tls.key') };
const token = 'operator-token-0001';
const env = {
  HEADGATE_LOG: `sqlite:${join(dir, 'log')}`,
  HEADGATE_OPERATOR_TOKEN: token,
  HEADGATE_GATEWAY_TOKEN: 'gateway-token-0001',
};
const trusting = { ...env, NODE_EXTRA_CA_CERTS: fixture('ca.pem') };
const tls = ['--tls-cert', files.cert, '--tls-key', files.key];
const waitMs = { timeout: 20_000, interval: 50 };

let node: Launch<{ url: string; metrics: string }>;
const started: Launch<unknown>[] = [];
let controlPlane: Launch<{ admin: string; metrics: string }>;
let gateway: Launch<{ api: string; metrics: string }>;
let agent: Launch<{ metrics: string }>;

function install(name: 'first' | 'second'): void {
  copyFileSync(fixture(`${name}.pem`), files.cert);
  copyFileSync(fixture(`${name}.key`), files.key);
}

async function start<Ready>(name: string, args: readonly string[], more = {}): Promise<Launch<Ready>> {
  const environment = { ...trusting, HEADGATE_LOG_LEVEL: 'info', ...more };
  const process = await startProcess<Ready>({ dir, name, args: [...args, ...tls], env: environment });
  started.push(process);
  return process;
}

interface Cli {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function cli(args: readonly string[], more: Record<string, string> = trusting): Promise<Cli> {
  const settings = {
    HEADGATE_ADMIN: controlPlane.ready.admin,
    HEADGATE_TOKEN: token,
    HEADGATE_CONTEXT: join(dir, 'no-context.json'),
  };
  return new Promise((resolve) => {
    const options = { cwd: dir, env: { PATH: process.env['PATH'], ...settings, ...more } };
    execFile(process.execPath, [binary, ...args], options, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out, err }),
    );
  });
}

interface Answer {
  readonly status: number | undefined;
  readonly body: string;
  /** Common name of the certificate that the server presented. */
  readonly name: string;
}

async function ask(url: string, options: RequestOptions = {}, body = ''): Promise<Answer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { ...options, ca, agent: false }, resolve)
      .on('error', reject)
      .end(body);
  });
  const { CN } = (response.socket as TLSSocket).getPeerCertificate().subject;
  return { status: response.statusCode, body: await text(response), name: String(CN) };
}

const listeners = (): string[] => [
  `${controlPlane.ready.admin}/admin/v1/openapi.json`,
  `${controlPlane.ready.metrics}/livez`,
  `${gateway.ready.api}/models`,
  `${gateway.ready.metrics}/livez`,
  `${agent.ready.metrics}/livez`,
  `${node.ready.url}/v1/models`,
  `${node.ready.metrics}/livez`,
];

const namesShown = async (): Promise<string[]> =>
  (await Promise.all(listeners().map((url) => ask(url)))).map(({ name }) => name);

beforeAll(async () => {
  install('first');
  node = await start('node', ['sim-node', '--port', '0', '--tokens-per-second', '0']);
  const nodeUrl = node.ready.url;
  const free = ['--port', '0', '--metrics-port', '0'];
  controlPlane = await start('cp-1', ['control-plane', '--data', join(dir, 'cp-1'), ...free]);
  const fleet = {
    version: 1,
    models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
    tiers: [{ id: 'Platinum', models: '*' }],
    pool: { models: ['echo-small'], nodes: [{ id: 'pool-1', url: nodeUrl, dialect: 'vllm', agent: true }] },
    organisations: [{ id: 'acme', name: 'Acme', tier: 'Platinum' }],
  };
  writeFileSync(join(dir, 'fleet.json'), JSON.stringify(fleet));
  expect(await cli(['apply', '-f', 'fleet.json'])).toMatchObject({ code: 0, err: expect.anything() });
  expect(await cli(['node', 'token', 'create', 'pool-1', '--out', 'pool-1.token'])).toMatchObject({
    code: 0,
  });
  const { admin } = controlPlane.ready;
  const where = ['--control-plane', admin];
  const agentArgs = ['node-agent', ...where, '--node', 'pool-1', '--engine', nodeUrl, '--metrics-port', '0'];
  const nodeToken = readFileSync(join(dir, 'pool-1.token'), 'utf8').trim();
  agent = await start('agent', agentArgs, { HEADGATE_NODE_TOKEN: nodeToken });
  gateway = await start('gw-1', ['gateway', '--data', join(dir, 'gw-1'), ...where, ...free]);
});
afterAll(async () => {
  for (const each of started.reverse()) await each.end();
  rmSync(dir, { recursive: true, force: true });
});

test('the whole fleet works over TLS: CLI, agent, snapshots, gateway and health', async () => {
  for (const url of listeners()) expect(url).toMatch(/^https:/);
  const created = await cli([
    'key',
    'create',
    '--org',
    'acme',
    '--name',
    'k',
    '--expires',
    'never',
    '-o',
    'json',
  ]);
  const key = (JSON.parse(created.out) as { value: string }).value;
  const body = JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  await vi.waitFor(async () => {
    const answer = await ask(`${gateway.ready.api}/chat/completions`, { method: 'POST', headers }, body);
    expect(answer.status).toBe(200);
  }, waitMs);
  await vi.waitFor(async () => {
    for (const { metrics } of [controlPlane.ready, gateway.ready, agent.ready])
      expect((await ask(`${metrics}/readyz`)).body).toBe('ok\n');
  }, waitMs);
  const events = await cli(['events', 'tail', '--from', '1', '--until-end', '-o', 'jsonl']);
  expect(events.out).toContain('"key.created"');
});

test('docs/metrics.md lists the metrics of every kind of process, including those of TLS', async () => {
  const page = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
  const listed = new Set([...page.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name as string));
  const real = new Set<string>();
  for (const { ready } of [controlPlane, gateway, agent, node])
    for (const [, name = ''] of (await ask(`${ready.metrics}/metrics`)).body.matchAll(/^# TYPE (\S+) /gm))
      if (/^(?:headgate|gen_ai)_/.test(name)) real.add(name);
  // These metrics exist only if traces are exported; traces.process.test.ts checks them.
  const elsewhere = /^headgate_trace_/;
  expect([...listed].filter((name) => !elsewhere.test(name)).sort()).toEqual([...real].sort());
});

test('the CLI refuses an untrusted certificate, with the next step', async () => {
  const { code, err } = await cli(['org', 'list'], env);
  expect(code).not.toBe(0);
  expect(err).toMatch(/certificate/i);
  expect(err).toContain('NODE_EXTRA_CA_CERTS');
});

test('SIGHUP applies a new certificate on every listener, and an unusable one changes nothing', async () => {
  expect(new Set(await namesShown())).toEqual(new Set(['first.headgate.test']));
  install('second');
  for (const { child } of [controlPlane, gateway, agent, node]) child.kill('SIGHUP');
  await vi.waitFor(async () => {
    expect(new Set(await namesShown())).toEqual(new Set(['second.headgate.test']));
  }, waitMs);
  copyFileSync(fixture('first.key'), files.key);
  for (const process of [controlPlane, gateway, agent, node]) {
    process.child.kill('SIGHUP');
    await vi.waitFor(
      () =>
        expect(process.stderr()).toContain(
          'the new certificate cannot be used; the previous one stays in use',
        ),
      waitMs,
    );
    expect(process.stderr()).not.toContain('BEGIN');
  }
  expect(new Set(await namesShown())).toEqual(new Set(['second.headgate.test']));
});

test.each([
  [
    'another certificate’s key',
    ['--tls-cert', fixture('first.pem'), '--tls-key', fixture('second.key')],
    /first\.pem.*second\.key/,
  ],
  [
    'a missing file',
    ['--tls-cert', fixture('none.pem'), '--tls-key', fixture('first.key')],
    /none\.pem: ENOENT/,
  ],
  [
    'only a certificate',
    ['--tls-cert', fixture('first.pem')],
    /--tls-cert and --tls-key must be given together/,
  ],
])('a start with %s is refused, and the files are named', async (_name, flags, expected) => {
  for (const process of ['control-plane', 'gateway']) {
    const { code, err } = await cli([process, '--data', join(dir, 'none'), ...flags]);
    expect(code).not.toBe(0);
    expect(err).toMatch(expected);
    expect(err).not.toContain('BEGIN');
  }
});
