/**
 * Tests that the rendered chart works as a fleet. Its pods run as processes in network namespaces, under the names that their
 * Services define and behind the chart's network policies. Certificates are issued for the chart's one name. All pods share a
 * log folder.
 */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { binary, type Launch, startProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { Cluster, type ClusterPod } from './cluster.ts';
import { missingTools, Namespaces } from './namespaces.ts';
import { isAsked, minimal, namespace, type Peer, rendered, type Values } from './rendered-chart.ts';

const missing = missingTools();
if (missing.length > 0) console.warn(`SKIPPED: the chart as a fleet needs ${missing.join(', ')}`);

const tokens = {
  operator: 'operator-token-of-the-chart',
  old: 'gateway-token-before-0001',
  new: 'gateway-token-after-00001',
};
const [prometheus, people]: readonly Peer[] = ['monitoring', 'people'].map((name) => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
}));
const values: Values = {
  ...minimal,
  tls: { secretName: 'certificate', hasAuthority: true },
  networkPolicy: { metricsFrom: [prometheus], adminFrom: [people] },
  gateway: { drainDelaySeconds: 0, drainTimeoutSeconds: 5 },
  controlPlane: { drainDelaySeconds: 0, drainTimeoutSeconds: 5 },
};
const service = 'hg-headgate-control-plane';
const admin = `https://${service}:8081`;
const dir = mkdtempSync(join(tmpdir(), 'headgate-pods-'));
const file = (name: string): string => join(dir, name);
let lan: Namespaces;
let cluster: Cluster;
const running = new Map<string, Launch<{ readonly pid: number }>>();
let secrets = { token: tokens.old, previous: '' };

function makeCertificate(): void {
  const openssl = (...words: readonly string[]) => execFileSync('openssl', words, { stdio: 'ignore' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  openssl(
    'req',
    '-x509',
    ...key,
    '-subj',
    '/CN=authority',
    '-keyout',
    file('ca.key'),
    '-out',
    file('ca.crt'),
  );
  openssl('req', ...key, '-subj', '/CN=chart', '-keyout', file('tls.key'), '-out', file('request.pem'));
  writeFileSync(file('names'), `subjectAltName=DNS:${service}`);
  const signed = [
    '-CA',
    file('ca.crt'),
    '-CAkey',
    file('ca.key'),
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    file('names'),
  ];
  openssl('x509', '-req', '-in', file('request.pem'), ...signed, '-out', file('tls.crt'));
}

/** Returns a pod's environment and secrets, with folders of this machine in place of the container's. */
function envOf({ name, env }: ClusterPod): Record<string, string | undefined> {
  return {
    ...env,
    HEADGATE_LOG: `sqlite:${file('log')}`,
    HEADGATE_DATA: file(name),
    HEADGATE_TLS_CERT: file('tls.crt'),
    HEADGATE_TLS_KEY: file('tls.key'),
    NODE_EXTRA_CA_CERTS: file('ca.crt'),
    HEADGATE_GATEWAY_TOKEN: secrets.token,
    HEADGATE_OPERATOR_TOKEN: 'HEADGATE_OPERATOR_TOKEN' in env ? tokens.operator : undefined,
    HEADGATE_GATEWAY_TOKEN_PREVIOUS: 'HEADGATE_GATEWAY_TOKEN_PREVIOUS' in env ? secrets.previous : undefined,
  };
}

async function startPod(pod: ClusterPod): Promise<void> {
  const within = lan.machines.get(pod.name)?.within ?? [];
  const options = { dir, name: pod.name, args: [pod.kind], env: envOf(pod), within, timeoutMs: 60_000 };
  running.set(pod.name, await startProcess(options));
}

/** Replaces one pod after the other, as a rollout does. */
async function roll(component: string, more: Values, next: typeof secrets): Promise<void> {
  secrets = next;
  cluster = new Cluster(rendered({ ...values, ...more }));
  for (const pod of cluster.ofComponent(component)) {
    await running.get(pod.name)?.end();
    await startPod(pod);
  }
}

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs Node in the network namespace of one machine. */
function node(machine: string, args: readonly string[]): Promise<Run> {
  const [command = '', ...words] = [...(lan.machines.get(machine)?.within ?? []), process.execPath];
  const env = {
    PATH: process.env['PATH'],
    NODE_EXTRA_CA_CERTS: file('ca.crt'),
    HEADGATE_ADMIN: admin,
    HEADGATE_TOKEN: tokens.operator,
  };
  return new Promise((resolve) => {
    execFile(command, [...words, ...args], { cwd: dir, env, timeout: 120_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    );
  });
}
const cli = (...args: readonly string[]) => node('people', [binary, ...args]);

/**
 * A program that prints the status or error code of a request. The request is a POST if it has a body, and the certificate
 * must have the chart's name.
 */
const asking = `
  const [url, servername, headers, body] = process.argv.slice(1);
  const options = { servername, headers: JSON.parse(headers), method: body === '' ? 'GET' : 'POST' };
  require('node:https').request(url, options, (answer) => {
    answer.resume();
    console.log(answer.statusCode);
  }).on('error', (error) => console.log(error.code)).end(body);`;
const ask = async (machine: string, url: string, headers = {}, body = ''): Promise<string> =>
  (await node(machine, ['-e', asking, url, service, JSON.stringify(headers), body])).stdout.trim();

beforeAll(async () => {
  if (missing.length > 0 || !isAsked) return;
  makeCertificate();
  cluster = new Cluster(rendered(values));
  lan = new Namespaces();
  for (const { name } of cluster.pods) lan.join(name);
  const callers = ['people', 'monitoring', 'elsewhere'];
  for (const name of callers) lan.join(name);
  const names = new Map<string, string[]>();
  for (const name of cluster.serviceNames)
    for (const pod of cluster.pods) {
      if (cluster.leadsTo(name, pod)) names.set(name, [...(names.get(name) ?? []), pod.name]);
      const own = `${pod.name}.${name}`;
      if (cluster.leadsTo(own, pod)) names.set(own, [pod.name]);
    }
  lan.setNames(names);
  const peers = {
    people: { peer: people as Peer },
    monitoring: { peer: prometheus as Peer },
    elsewhere: { labels: {} },
  };
  for (const pod of cluster.pods)
    lan.admit(
      pod.name,
      Object.values(pod.ports).flatMap((port) => [
        ...cluster.pods
          .filter((from) => cluster.admits(from, { pod, port }))
          .map(({ name: from }) => ({ from, port })),
        ...Object.entries(peers).flatMap(([from, caller]) =>
          cluster.admits(caller, { pod, port }) ? [{ from, port }] : [],
        ),
      ]),
    );
  mkdirSync(file('log'), { recursive: true });
  for (const component of ['control-plane', 'gateway'])
    for (const pod of cluster.ofComponent(component)) await startPod(pod);
}, 180_000);
afterAll(async () => {
  await Promise.all([...running.values()].map((each) => each.end('SIGKILL')));
  lan?.close();
  rmSync(dir, { recursive: true, force: true });
});

const refused = (ordinal: number): Promise<string> =>
  ask(
    'elsewhere',
    `https://hg-headgate-gateway-${ordinal}.hg-headgate-gateway-pods.${namespace}.svc:8080/v1/chat/completions`,
    {
      host: 'api.example.net',
      authorization: 'Bearer a-key-that-nobody-made',
      'content-type': 'application/json',
    },
    JSON.stringify({ model: 'any', messages: [{ role: 'user', content: 'hello' }] }),
  );

/** Returns the decision ids of each gateway, as a control plane collected them. */
async function gathered(): Promise<Readonly<Record<string, readonly string[]>>> {
  const { code, stdout, stderr } = await cli('decisions', 'export', '--since', '1h');
  if (code !== 0) return { [stderr]: [] };
  const lines = stdout.split('\n').filter(Boolean);
  const decisions = lines.map((line) => JSON.parse(line) as { req: string; gateway: string });
  return Object.fromEntries(
    cluster
      .ofComponent('gateway')
      .map(({ name }) => [name, decisions.filter(({ gateway }) => gateway === name).map(({ req }) => req)]),
  );
}

/** Makes each gateway refuse one more request, and waits until a control plane finds `count` decisions of each gateway. */
async function areGathered(count: number): Promise<Readonly<Record<string, readonly string[]>>> {
  expect([await refused(0), await refused(1)]).toEqual(['401', '401']);
  let found: Readonly<Record<string, readonly string[]>> = {};
  const isSo = async () => {
    found = await gathered();
    return Object.values(found).every(({ length }) => length === count);
  };
  await until(isSo, 60_000).catch(() => expect(found).toEqual(`${count} of each`));
  return found;
}

const isRun = missing.length === 0 && isAsked;

test.skipIf(!isRun)('explaining and exporting decisions reach every gateway', async () => {
  for (const [request = ''] of Object.values(await areGathered(1))) {
    const { code, stdout } = await cli('explain', '--request', request);
    // `explain` exits with 1, because the request was refused.
    expect([code, stdout]).toEqual([1, expect.stringContaining('401')]);
  }
});

test.skipIf(!isRun)('doctor finds no gateway that cannot be reached', async () => {
  const { stdout } = await cli('doctor', '--only', 'log,control-planes,gateways', '-o', 'json');
  const { checks } = JSON.parse(stdout) as {
    checks: readonly { code: string; level: string; text: string }[];
  };
  expect(checks.filter(({ level }) => level === 'fail')).toEqual([]);
  expect(checks.find(({ code }) => code === 'HG4013')?.level).toBe('ok');
});

test.skipIf(!isRun)('Prometheus scrapes every pod, and nobody else gets past the policies', async () => {
  for (const pod of cluster.pods) {
    const url = `https://${pod.name}.${pod.service}:9464/metrics`;
    expect([pod.name, await ask('monitoring', url)]).toEqual([pod.name, '200']);
    expect([pod.name, await ask('elsewhere', url)]).toEqual([pod.name, 'ECONNREFUSED']);
  }
  expect(await ask('elsewhere', `${admin}/admin/v1/status`)).toBe('ECONNREFUSED');
});

test.skipIf(!isRun)('a gateway that lost its state fetches a snapshot from a control plane', async () => {
  const [pod] = cluster.ofComponent('gateway');
  if (pod === undefined) throw new Error('there is no gateway');
  await running.get(pod.name)?.end();
  for (const suffix of ['', '-wal', '-shm'])
    rmSync(join(file(pod.name), `state.db${suffix}`), { force: true });
  await startPod(pod);
  expect(running.get(pod.name)?.stderr()).not.toContain('snapshot.fetch_failed');
});

test.skipIf(!isRun)(
  'the gateway token is rotated in four upgrades, and decisions can be read after each',
  async () => {
    const previous = (name: string) => ({
      secrets: { ...(minimal['secrets'] as object), gatewayTokenPrevious: { name } },
    });
    await roll('control-plane', previous('gateways-new'), { token: tokens.old, previous: tokens.new });
    await areGathered(2);
    await roll('gateway', previous('gateways-new'), { token: tokens.new, previous: '' });
    await areGathered(3);
    await roll('control-plane', previous('gateways-old'), { token: tokens.new, previous: tokens.old });
    await areGathered(4);
    await roll('control-plane', {}, { token: tokens.new, previous: '' });
    await areGathered(5);
  },
  600_000,
);
