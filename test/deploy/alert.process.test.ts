/** Follows one alert from its cause to Prometheus: when a gateway is killed, the rule must fire with the gateway's name. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { type GatewayProcess, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const hasPrometheus = spawnSync('prometheus', ['--version']).status === 0;
const isRequired = (process.env['HEADGATE_REQUIRE'] ?? '').split(',').includes('prometheus');
if (!hasPrometheus && !isRequired)
  console.warn('SKIPPED: the alert needs prometheus (Debian: apt-get install prometheus)');
const isAsked = hasPrometheus || isRequired;

const fleet = new ProcessFleet();
let gateway: GatewayProcess;
let prometheus: ChildProcess | undefined;
let url: string;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

beforeAll(async () => {
  if (!isAsked) return;
  const plane: Plane = await fleet.serve('control-plane', 'cp');
  gateway = await fleet.serve('gateway', 'gw');
  const rules = readFileSync(
    resolve(import.meta.dirname, '../../deploy/prometheus/headgate.rules.yaml'),
    'utf8',
  );
  // Uses the shipped alert rules, except that their conditions need to hold for only a second instead of minutes.
  writeFileSync(join(fleet.dir, 'rules.yaml'), rules.replaceAll(/^(\s+for:) .*$/gm, '$1 1s'));
  const job = (name: string, { metrics }: { readonly metrics: string }) => ({
    job_name: name,
    static_configs: [{ targets: [new URL(metrics).host] }],
  });
  const config = {
    global: { scrape_interval: '250ms', scrape_timeout: '250ms', evaluation_interval: '250ms' },
    rule_files: ['rules.yaml'],
    scrape_configs: [job('headgate-gateway', gateway.ready), job('headgate-control-plane', plane.ready)],
  };
  writeFileSync(join(fleet.dir, 'prometheus.yaml'), stringify(config));
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  prometheus = spawn(
    'prometheus',
    [
      `--config.file=${join(fleet.dir, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(fleet.dir, 'tsdb')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: 'ignore' },
  );
}, 120_000);
afterAll(async () => {
  if (prometheus !== undefined && prometheus.exitCode === null) {
    prometheus.kill('SIGKILL');
    await once(prometheus, 'exit');
  }
  await fleet.close();
});

interface Result {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

async function query(expr: string): Promise<readonly Result[]> {
  try {
    const response = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(expr)}`);
    const { data } = (await response.json()) as { data?: { result: readonly Result[] } };
    return data?.result ?? [];
  } catch {
    return []; // Prometheus is still starting, so there are no alerts yet.
  }
}

test.skipIf(!isAsked)('HeadgateProcessDown fires for a killed gateway, and for no other', async () => {
  const down = 'ALERTS{alertname="HeadgateProcessDown"}';
  await until(async () => (await query('up == 1')).length === 2, 60_000);
  expect(await query(down)).toEqual([]);
  await gateway.end('SIGKILL');
  const firing = `${down.slice(0, -1)},alertstate="firing"}`;
  await until(async () => (await query(firing)).length > 0, 60_000);
  expect((await query(firing)).map(({ metric }) => metric)).toMatchObject([
    { job: 'headgate-gateway', severity: 'critical', instance: new URL(gateway.ready.metrics).host },
  ]);
});
