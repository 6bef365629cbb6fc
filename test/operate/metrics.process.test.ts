/**
 * Tests the metrics that Prometheus reads from a running control plane and gateway, because dashboards and alerts depend on
 * their names.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import {
  behave,
  completion,
  type GatewayProcess,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';

const fleet = new ProcessFleet();
const root = resolve(import.meta.dirname, '../..');
let controlPlane: Plane;
let gateway: GatewayProcess;
let node: Launch<{ readonly url: string }>;
let admin: DevAdmin;
let key: string;

beforeAll(async () => {
  const tiers = [{ id: 'Wide', models: '*' as const, contextTokens: 4096 }];
  const document = (url: string) => ({ ...smallFleet(url), tiers });
  ({ plane: controlPlane, node, admin, key, gateway } = await fleet.stand({ document }));
});
afterAll(() => fleet.close());

const ask = (more: Readonly<Record<string, unknown>>, bearer = key): Promise<number> =>
  statusWith(gateway.ready.api, bearer, more);

/** Returns the samples, keyed by name and labels as written. Fails on any line in another form. */
async function scrape({ metrics }: { readonly metrics: string }): Promise<Map<string, number>> {
  const response = await fetch(`${metrics}/metrics`);
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  const samples = new Map<string, number>();
  for (const line of (await response.text()).split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, series, value] = /^(\w+(?:\{(?:\w+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)$/.exec(line) ?? [];
    if (series === undefined) throw new Error(`no sample: ${line}`);
    samples.set(series, Number(value));
  }
  return samples;
}

async function typeOf({ metrics }: { readonly metrics: string }, name: string): Promise<string | undefined> {
  const text = await (await fetch(`${metrics}/metrics`)).text();
  return new RegExp(`^# TYPE ${name} (\\w+)$`, 'm').exec(text)?.[1];
}

/** Returns the sum of all series with this name and these labels. */
function sum(
  samples: ReadonlyMap<string, number>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return [...samples]
    .filter(([series]) => series.split('{', 1)[0] === name && wanted.every((label) => series.includes(label)))
    .reduce((total, [, value]) => total + value, 0);
}

test('a gateway reports its requests: number, duration, tokens, refusals and by whom', async () => {
  await vi.waitFor(async () => expect(await ask({})).toBe(200), { timeout: 20_000, interval: 100 });
  const before = await scrape(gateway.ready);
  expect([await ask({}), await ask({ stream: true }), await ask({ max_tokens: 5000 })]).toEqual([
    200, 200, 413,
  ]);
  expect(await ask({}, 'no-key')).toBe(401);
  expect(await ask({ model: 'no-such-model' })).toBe(404);
  const after = await scrape(gateway.ready);
  const more = (name: string, labels: Record<string, string> = {}): number =>
    sum(after, name, labels) - sum(before, name, labels);
  const chat = { host_kind: 'shared', operation: 'chat' };
  expect(more('headgate_requests_total', { ...chat, model: 'echo-small', outcome: 'ok' })).toBe(2);
  expect(more('headgate_requests_total', { ...chat, model: 'other' })).toBe(2);
  expect(more('headgate_refusals_total', { type: 'ContextWindowExceededError' })).toBe(1);
  expect(more('headgate_refusals_total', { type: 'Unauthorized' })).toBe(1);
  expect(
    more('headgate_limiter_decisions_total', { tier: 'Wide', decision: 'admitted' }),
  ).toBeGreaterThanOrEqual(2);
  expect(more('headgate_limiter_decisions_total', { decision: 'ContextWindowExceededError' })).toBe(1);
  expect(more('gen_ai_server_request_duration_seconds_count', { gen_ai_request_model: 'echo-small' })).toBe(
    2,
  );
  expect(more('gen_ai_server_time_to_first_token_seconds_count', { model: 'echo-small' })).toBe(1);
  expect(more('gen_ai_client_token_usage_count', { gen_ai_token_type: 'output', model: 'echo-small' })).toBe(
    2,
  );
  expect(more('gen_ai_client_token_usage_sum', { gen_ai_token_type: 'output' })).toBeGreaterThan(2);
  for (const phase of ['auth', 'shape', 'limit_route', 'connect'])
    expect(more('headgate_gateway_overhead_seconds_count', { phase })).toBeGreaterThanOrEqual(2);
  expect(sum(after, 'headgate_gateway_overhead_seconds_sum')).toBeLessThan(5);
  for (const gauge of ['headgate_streams_open', 'headgate_limiter_in_flight_units'])
    expect(after.get(gauge)).toBe(0);
  expect([...after.keys()].some((series) => /acme|hello|hg_|no-key|no-such-model/.test(series))).toBe(false);
});

test('a stream counts as open while it lasts', async () => {
  await behave(node, { rules: [{ match: {}, fault: { kind: 'stall-after', afterEvents: 2 } }] });
  const leave = new AbortController();
  const stream = await completion(gateway.ready.api, key, { stream: true }, { signal: leave.signal });
  expect(stream.status).toBe(200);
  expect((await scrape(gateway.ready)).get('headgate_streams_open')).toBe(1);
  leave.abort();
  await vi.waitFor(async () => {
    const samples = await scrape(gateway.ready);
    expect(samples.get('headgate_streams_open')).toBe(0);
    expect(samples.get('headgate_stream_aborts_total{who="client"}')).toBe(1);
  });
  await behave(node, {});
});

test('both planes report their build, their fold, and how long a revocation took', async () => {
  const second = await admin.createKey('acme', 'k2');
  await vi.waitFor(async () => expect(await ask({}, second.value)).toBe(200), {
    timeout: 20_000,
    interval: 50,
  });
  await admin.call('POST', `/keys/${second.id}/revoke`);
  await vi.waitFor(async () => expect(await ask({}, second.value)).toBe(401), {
    timeout: 20_000,
    interval: 20,
  });
  const [ours, theirs] = [await scrape(gateway.ready), await scrape(controlPlane.ready)];
  for (const { ready } of [gateway, controlPlane])
    expect(await typeOf(ready, 'headgate_fold_skipped_total')).toBe('counter');
  for (const samples of [ours, theirs]) {
    expect(sum(samples, 'headgate_build_info')).toBe(1);
    expect(sum(samples, 'headgate_snapshot_info')).toBe(1);
    expect(samples.get('headgate_log_reachable')).toBe(1);
    expect(samples.get('headgate_fold_skipped_total')).toBe(0);
    expect(samples.get('headgate_fold_halted')).toBe(0);
    expect(samples.get('headgate_fold_quarantined_total')).toBe(0);
    expect(samples.get('headgate_fold_lag_seconds')).toBeGreaterThanOrEqual(0);
    expect(samples.get('headgate_fold_applied_offset')).toBeGreaterThan(3);
    expect(samples.get('headgate_fold_head_offset')).toBeGreaterThan(3);
    expect(samples.get('headgate_fold_events_total{type="key.revoked"}')).toBe(1);
    expect(samples.get('headgate_fold_apply_seconds_count')).toBeGreaterThan(0);
    expect(samples.get('headgate_revocation_propagation_seconds_count')).toBe(1);
    expect(samples.get('headgate_revocation_propagation_seconds_bucket{le="60"}')).toBe(1);
  }
  expect(ours.get('headgate_data_bytes_free')).toBeGreaterThan(0);
  expect(theirs.get('headgate_node_up{node="pool-1"}')).toBe(1);
});

test('a control plane reports each gateway’s state, lag, silence and divergence', async () => {
  const gauge = (samples: ReadonlyMap<string, number>, name: string, labels = ''): number | undefined =>
    samples.get(`headgate_${name}{gateway="gateway-1"${labels}}`);
  await vi.waitFor(async () => {
    const samples = await scrape(controlPlane.ready);
    expect(gauge(samples, 'gateway_state', ',state="synced"')).toBe(1);
    expect(gauge(samples, 'gateway_state', ',state="stale"')).toBe(0);
    expect(gauge(samples, 'gateway_lag_events')).toBe(0);
    expect(gauge(samples, 'gateway_seen_seconds')).toBeLessThan(10);
    expect(gauge(samples, 'fold_diverged')).toBe(0);
  }, 20_000);
  gateway.child.kill('SIGSTOP');
  try {
    await admin.createKey('acme', 'not folded by a stopped gateway');
    await vi.waitFor(async () => {
      const samples = await scrape(controlPlane.ready);
      expect(gauge(samples, 'gateway_state', ',state="stale"')).toBe(1);
      expect(gauge(samples, 'gateway_state', ',state="synced"')).toBe(0);
      expect(gauge(samples, 'gateway_lag_events')).toBeGreaterThan(0);
      expect(gauge(samples, 'gateway_seen_seconds')).toBeGreaterThan(10);
    }, 30_000);
  } finally {
    gateway.child.kill('SIGCONT');
  }
});

/** Returns the names of all metrics that a process exposes, including those without samples. */
async function namesOf({ metrics }: { readonly metrics: string }): Promise<string[]> {
  const text = await (await fetch(`${metrics}/metrics`)).text();
  return [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name as string);
}
const own = /^(?:headgate|gen_ai)_/;
/** Metrics that this fleet does not have, because it has no certificate, agent, simulated node or trace exporter. */
const elsewhere = /^headgate_(?:tls|trace|agent_(?:attached|sessions_total|engine_up|engine_in_flight)|sim_)/;

test('docs/metrics.md lists exactly the metrics of both planes', async () => {
  const page = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
  const listed = [...page.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name as string);
  const real = new Set([...(await namesOf(gateway.ready)), ...(await namesOf(controlPlane.ready))]);
  const expected = [...real].filter((name) => own.test(name));
  expect(listed.filter((name) => !elsewhere.test(name)).sort()).toEqual(expected.sort());
});

test('docs/metrics.md lists each metric under the processes that report it', async () => {
  const page = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
  const ofGateway = await namesOf(gateway.ready);
  const ofPlane = await namesOf(controlPlane.ready);
  const sections = {
    'Gateways and control planes': (name: string) => ofGateway.includes(name) && ofPlane.includes(name),
    Gateways: (name: string) => !ofPlane.includes(name),
    'Control planes': (name: string) => !ofGateway.includes(name),
  };
  const faults = Object.entries(sections).flatMap(([title, isRight]) => {
    const section = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? '';
    const names = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name = '']) => name);
    return names.length === 0 ? [title] : names.filter((name) => !elsewhere.test(name) && !isRight(name));
  });
  expect(faults).toEqual([]);
});

test('docs/metrics.md lists each sample’s labels', async () => {
  const page = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
  const listed = new Map(
    [...page.matchAll(/^\| `(\w+)` \| \w+ \| ([^|]*) \|/gm)].map(([, name, labels]) => [
      name,
      labels?.trim(),
    ]),
  );
  const series = [...(await scrape(gateway.ready)).keys(), ...(await scrape(controlPlane.ready)).keys()];
  const faults = series.filter((each) => {
    const name = each.split('{', 1)[0]?.replace(/_(?:bucket|count|sum)$/, '') ?? '';
    if (!own.test(name)) return false;
    const found = [...each.matchAll(/(\w+)="/g)].map(([, label]) => label).filter((label) => label !== 'le');
    return found.sort().join(', ') !== listed.get(name)?.split(', ').sort().join(', ');
  });
  expect(faults).toEqual([]);
});

test('each metric that an alert or a dashboard reads exists', async () => {
  const real = new Set([...(await namesOf(gateway.ready)), ...(await namesOf(controlPlane.ready))]);
  const page = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
  // Also collects the names of labels, because some of them begin like the names of metrics.
  for (const [, name = '', labels = ''] of page.matchAll(/^\| `(\w+)` \| \w+ \| ([^|]*) \|/gm))
    for (const each of [name, ...labels.split(', ')]) real.add(each.trim());
  const files = readdirSync(join(root, 'deploy'), { recursive: true, encoding: 'utf8' });
  const read = new Set<string>();
  for (const file of files.filter((name) => /\.(?:rules\.yaml|json)$/.test(name)))
    for (const [name] of readFileSync(join(root, 'deploy', file), 'utf8').matchAll(
      /\b(?:headgate|gen_ai)_[a-z_]+/g,
    ))
      read.add(name.replace(/_(?:bucket|count|sum)$/, ''));
  expect(read.size).toBeGreaterThanOrEqual(20);
  expect([...read].filter((name) => !real.has(name))).toEqual([]);
});
