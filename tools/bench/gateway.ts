// Compares a gateway with nginx and a bare Node proxy in one run. It measures CPU per request, throughput, added latency, and
// the delay added between the tokens of many streams. Keys, limits, routing and metering are all on. Targets are warmed up
// and take turns in each round. Trust only the ratios, which are medians over the rounds, because other load on the machine
// distorts absolute figures.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startProcess } from '../../test/support/processes.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { atRate, percentile, saturate, streams, type Target } from './support/load.ts';
import { body, createTarget, serve, startScript } from './support/served.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
/** Warm-up of each target before anything is measured. It ends after this many requests or seconds, whichever comes first. */
const warmUp = { requests: 40_000, secondsMax: 30 };
const connections = 64;
const rate = 1000;
const streamIntervalMs = 25;
const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
const ended: (() => Promise<void> | void)[] = [];

interface Measurable {
  readonly name: string;
  readonly target: Target;
  readonly pids: readonly number[];
}

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
/** CPU time per request or event by target, one entry per round. */
const costs: Record<string, number[]> = {};

const tenths = (value: number): number => Math.round(value * 10) / 10;

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Returns the median ratio of one target's cost to another's, or undefined if the other was not measured. */
function costRatio(name: string, other: string): number | undefined {
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

/** Starts the targets and prepares requests. A normal response has 60 words (half a KB); a stream sends an event per word. */
async function lineUp(
  upstream: { url: string; pid: number },
  nginxPort: number,
  text: string,
): Promise<Measurable[]> {
  const target = (port: number, key?: string): Target => createTarget(port, text, key);
  const ours = await serve(upstream.url);
  const bare = await startScript('bare-proxy', [upstream.url]);
  ended.push(ours.end, bare.stop);
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
  await measure(await lineUp(fast, 18_480, body(60)));
  const paced = await node(1000 / streamIntervalMs);
  for (const one of await lineUp(paced, 18_481, body(240, { stream: true }))) {
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
      cpuRatioToNginx: costRatio(of('headgate'), of('nginx')),
      cpuRatioToBareNode: costRatio(of('headgate'), of('bare node proxy')),
    };
  });
  const ratios = {
    cpuRatioToNginx: costRatio('headgate', 'nginx'),
    cpuRatioToBareNode: costRatio('headgate', 'bare node proxy'),
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
