// What the gateway costs compared with nginx and a bare Node proxy, in one run: CPU per request, throughput, added latency, and
// the delay it adds between the tokens of many streams. Everything is on: keys, limits, routing, metering.
// All targets take turns in each round, and ratios are the median of the rounds: trust those, because the machine's other
// load moves the rest. Targets are warmed up first, as a compiler in the process makes its first seconds twice as slow.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { demoFleet } from '../dev/demo-fleet.ts';
import { DevAdmin } from '../dev/dev-admin.ts';
import { startProcess } from '../test/support/processes.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { atRate, percentile, saturate, streams, type Target } from './support/load.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
/** Before anything is measured, each target answers so many requests, or works for so many seconds. */
const warmUp = { requests: 40_000, secondsMax: 30 };
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

/** A request of 1.1 KB. An answer of 60 words has half a KB; a stream of 240 has that many events, one word each. */
const body = (stream: boolean, words: number): string =>
  JSON.stringify({
    model: 'echo-small',
    max_tokens: words,
    stream,
    messages: [{ role: 'user', content: `say ${words} words like ${'words of some length '.repeat(48)}` }],
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
  const started = await startProcess<{ url: string; pid: number }>({
    dir,
    name: `node-${tokensPerSecond}`,
    args,
  });
  ended.push(() => started.end());
  return { url: started.ready.url, pid: started.ready.pid };
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
/** CPU per request or event, one entry a round. */
const costs: Record<string, number[]> = {};

const tenths = (value: number): number => Math.round(value * 10) / 10;

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** How many times the cost of another target, round by round; undefined where that was not there. */
function timesCostOf(name: string, other: string): number | undefined {
  const others = costs[other];
  if (others === undefined) return undefined;
  const ratios = (costs[name] ?? []).map((cost, round) => cost / (others[round] ?? Number.NaN));
  return Math.round(median(ratios) * 100) / 100;
}

async function warm({ target }: Measurable): Promise<void> {
  const until = performance.now() + warmUp.secondsMax * 1000;
  for (let done = 0; done < warmUp.requests && performance.now() < until; )
    done += (await saturate(target, connections, 2)).requests;
}

async function measure(all: readonly Measurable[]): Promise<void> {
  for (const one of all) await warm(one);
  const rates: Record<string, number[]> = {};
  const failures: Record<string, number> = {};
  for (let round = 0; round < rounds; round++)
    for (const { name, target, pids } of all) {
      const before = cpu(pids);
      const full = await saturate(target, connections, seconds);
      const cost = (cpu(pids) - before) / full.requests;
      costs[name] = [...(costs[name] ?? []), cost];
      rates[name] = [...(rates[name] ?? []), full.requests / full.seconds];
      failures[name] = (failures[name] ?? 0) + full.failures;
    }
  for (const { name, target, pids } of all) {
    const paced = await atRate(target, rate, seconds);
    figures[name] = {
      requestsPerSecond: Math.round(median(rates[name] ?? [])),
      cpuMicrosecondsPerRequest: tenths(median(costs[name] ?? [])),
      p50AtRateMicroseconds: Math.round(percentile(paced.latencies, 50)),
      p99AtRateMicroseconds: Math.round(percentile(paced.latencies, 99)),
      failures: (failures[name] ?? 0) + paced.failures,
      rssMegabytes: Math.round(rssMegabytes(pids.at(-1) ?? 0)),
    };
  }
}

async function measureStreams({ name, target, pids }: Measurable, count: number): Promise<void> {
  const label = `${name} × ${count} streams`;
  const before = cpu(pids);
  const result = await streams(target, count, streamIntervalMs);
  const cost = (cpu(pids) - before) / result.events;
  costs[label] = [cost];
  figures[label] = {
    events: result.events,
    completed: result.completed,
    cpuMicrosecondsPerEvent: tenths(cost),
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

const streamCounts = [200, 1000];

try {
  const fast = await node(0);
  await measure(await lineUp(fast, 'fast', 18_480, body(false, 60)));
  const paced = await node(1000 / streamIntervalMs);
  for (const one of await lineUp(paced, 'paced', 18_481, body(true, 240))) {
    if (one.name === 'direct') continue;
    await streams(one.target, 100, streamIntervalMs);
    for (const count of streamCounts) await measureStreams(one, count);
  }
  console.table(figures);
  const added = (p: string): number => (figures['headgate']?.[p] ?? 0) - (figures['direct']?.[p] ?? 0);
  const eventRatios = streamCounts.map((count) => {
    const of = (name: string): string => `${name} × ${count} streams`;
    return {
      streams: count,
      cpuRatioToNginx: timesCostOf(of('headgate'), of('nginx')),
      cpuRatioToBareNode: timesCostOf(of('headgate'), of('bare node proxy')),
    };
  });
  const ratios = {
    cpuRatioToNginx: timesCostOf('headgate', 'nginx'),
    cpuRatioToBareNode: timesCostOf('headgate', 'bare node proxy'),
    addedP50Microseconds: added('p50AtRateMicroseconds'),
    addedP99Microseconds: added('p99AtRateMicroseconds'),
  };
  console.table([ratios]);
  console.table(eventRatios);
  console.log(JSON.stringify({ bench: 'gateway', ...ratios, events: eventRatios, figures }));
} finally {
  for (const end of ended.reverse()) await end();
  rmSync(dir, { recursive: true, force: true });
}
