// What the gateway costs beside nginx and a bare Node proxy, in one run: CPU per request, throughput, added latency, and
// the delay it adds between the tokens of many streams. Everything is on: keys, limits, routing, metering.
// Trust CPU per request and ratios; the machine's other load moves the rest.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { demoFleet } from '../cli/processes/demo-fleet.ts';
import { DevAdmin } from '../cli/processes/dev-admin.ts';
import { startProcess } from '../test/support/processes.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { atRate, percentile, saturate, streams, type Target } from './support/load.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const connections = 64;
const rate = 1000;
const streamIntervalMs = 25;
const token = 'bench-operator-token-000001';
const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
const ended: (() => Promise<void> | void)[] = [];

interface Measurable {
  readonly name: string;
  readonly target: Target;
  readonly pids: readonly number[];
}

const content = 'x'.repeat(900);
const body = (stream: boolean, maxTokens: number): string =>
  JSON.stringify({
    model: 'echo-small',
    max_tokens: maxTokens,
    stream,
    messages: [{ role: 'user', content }],
  });

async function node(tokensPerSecond: number): Promise<{ url: string; pid: number }> {
  const args = [
    'sim-node',
    '--port',
    '0',
    '--models',
    'echo-small',
    '--tokens-per-second',
    String(tokensPerSecond),
  ];
  const started = await startProcess<{ metrics: string; pid: number }>({
    dir,
    name: `node-${tokensPerSecond}`,
    args,
  });
  ended.push(() => started.end());
  return { url: started.ready.metrics, pid: started.ready.pid };
}

async function gateway(upstream: string, name: string): Promise<{ port: number; pid: number; key: string }> {
  const env = { HEADGATE_OPERATOR_TOKEN: token, HEADGATE_LOG_LEVEL: 'info' };
  const log = `sqlite:${join(dir, name, 'log')}`;
  const common = ['--log', log, '--port', '0', '--metrics-port', '0'];
  const plane = await startProcess<{ admin: string }>({
    dir,
    name: `cp-${name}`,
    args: ['control-plane', ...common, '--data', join(dir, name, 'cp')],
    env,
  });
  ended.push(() => plane.end('SIGKILL'));
  const admin = new DevAdmin(plane.ready.admin, token);
  const fleet = demoFleet({
    'pool-1': upstream,
    'acme-1': upstream,
    'acme-s1': upstream,
    'birch-s1': upstream,
  });
  await admin.apply({
    ...fleet,
    tiers: (fleet.tiers ?? []).map((tier) => ({ id: tier.id, models: tier.models })),
  });
  const { value } = await admin.createKey('birch', 'bench');
  while (!(await admin.nodes()).every(({ up }) => up))
    await new Promise((resolve) => setTimeout(resolve, 100));
  const started = await startProcess<{ api: string; pid: number }>({
    dir,
    name: `gw-${name}`,
    args: ['gateway', ...common, '--data', join(dir, name, 'gw'), '--drain-delay', '0'],
    env,
  });
  ended.push(() => started.end('SIGKILL'));
  return { port: Number(new URL(started.ready.api).port), pid: started.ready.pid, key: value };
}

async function bareProxy(upstream: string): Promise<{ port: number; pid: number }> {
  const child = spawn(
    process.execPath,
    [new URL('./support/bare-proxy.js', import.meta.url).pathname, upstream],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  ended.push(() => {
    child.kill('SIGKILL');
  });
  const port = await new Promise<number>((resolve) =>
    child.stdout.once('data', (chunk: Buffer) => resolve(Number(chunk.toString()))),
  );
  return { port, pid: child.pid ?? 0 };
}

async function nginx(upstream: string, port: number): Promise<{ port: number; pids: number[] } | undefined> {
  if (spawnSync('nginx', ['-v']).status !== 0) return undefined;
  const conf = join(dir, `nginx-${port}.conf`);
  writeFileSync(
    conf,
    `daemon off; worker_processes 1; pid ${dir}/nginx-${port}.pid; error_log ${dir}/nginx.log;
events { worker_connections 4096; }
http { access_log off; client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  upstream node { server ${new URL(upstream).host}; keepalive 2048; }
  server { listen 127.0.0.1:${port}; keepalive_requests 1000000;
    location / { proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }`,
  );
  const child = spawn('nginx', ['-c', conf, '-p', dir], { stdio: 'ignore' });
  ended.push(() => {
    child.kill('SIGTERM');
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  const workers = spawnSync('pgrep', ['-P', String(child.pid)])
    .stdout.toString()
    .trim()
    .split('\n')
    .map(Number);
  return { port, pids: [child.pid ?? 0, ...workers] };
}

const cpu = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + cpuMicroseconds(pid), 0);
const figures: Record<string, Record<string, number>> = {};

async function measure({ name, target, pids }: Measurable): Promise<void> {
  await saturate(target, connections, 1);
  const before = cpu(pids);
  const full = await saturate(target, connections, seconds);
  const perRequest = (cpu(pids) - before) / full.requests;
  const paced = await atRate(target, rate, seconds);
  figures[name] = {
    requestsPerSecond: Math.round(full.requests / full.seconds),
    cpuMicrosecondsPerRequest: Math.round(perRequest * 10) / 10,
    p50AtRateMicroseconds: Math.round(percentile(paced.latencies, 50)),
    p99AtRateMicroseconds: Math.round(percentile(paced.latencies, 99)),
    failures: full.failures + paced.failures,
    rssMegabytes: Math.round(rssMegabytes(pids.at(-1) ?? 0)),
  };
}

async function measureStreams({ name, target, pids }: Measurable, count: number): Promise<void> {
  const before = cpu(pids);
  const result = await streams(target, count, streamIntervalMs);
  figures[`${name} × ${count} streams`] = {
    events: result.events,
    completed: result.completed,
    cpuMicrosecondsPerEvent: Math.round(((cpu(pids) - before) / result.events) * 10) / 10,
    p50DelayMicroseconds: Math.round(percentile(result.delays, 50)),
    p99DelayMicroseconds: Math.round(percentile(result.delays, 99)),
    rssMegabytes: Math.round(rssMegabytes(pids.at(-1) ?? 0)),
  };
}

async function lineUp(
  upstream: { url: string; pid: number },
  name: string,
  nginxPort: number,
  text: string,
): Promise<Measurable[]> {
  const target = (port: number, key?: string): Target => ({
    port,
    path: '/v1/chat/completions',
    host: '127.0.0.1',
    headers: key === undefined ? {} : { Authorization: `Bearer ${key}` },
    body: text,
  });
  const ours = await gateway(upstream.url, name);
  const bare = await bareProxy(upstream.url);
  const web = await nginx(upstream.url, nginxPort);
  return [
    { name: 'direct', target: target(Number(new URL(upstream.url).port)), pids: [upstream.pid] },
    ...(web ? [{ name: 'nginx', target: target(web.port), pids: web.pids }] : []),
    { name: 'bare node proxy', target: target(bare.port), pids: [bare.pid] },
    { name: 'headgate', target: target(ours.port, ours.key), pids: [ours.pid] },
  ];
}

try {
  const fast = await node(0);
  for (const one of await lineUp(fast, 'fast', 18_480, body(false, 16))) await measure(one);
  const paced = await node(1000 / streamIntervalMs);
  for (const one of await lineUp(paced, 'paced', 18_481, body(true, 120))) {
    if (one.name === 'direct') continue;
    for (const count of [200, 1000]) await measureStreams(one, count);
  }
  console.table(figures);
  const ours = figures['headgate'] ?? {};
  const reference = figures['nginx'] ?? {};
  const direct = figures['direct'] ?? {};
  const ratio =
    (ours['cpuMicrosecondsPerRequest'] ?? 0) / (reference['cpuMicrosecondsPerRequest'] ?? Number.NaN);
  const added = (p: string): number => (ours[p] ?? 0) - (direct[p] ?? 0);
  console.log(
    JSON.stringify({
      bench: 'gateway',
      cpuRatioToNginx: Math.round(ratio * 100) / 100,
      addedP50Microseconds: added('p50AtRateMicroseconds'),
      addedP99Microseconds: added('p99AtRateMicroseconds'),
      figures,
    }),
  );
} finally {
  for (const end of ended.reverse()) await end();
  rmSync(dir, { recursive: true, force: true });
}
