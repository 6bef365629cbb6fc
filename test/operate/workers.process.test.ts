/**
 * Goal: `headgate gateway --workers N` is N gateways on one port. Each is known by its own name; one that is killed is replaced while
 * the others serve; the parent's end is the end of all; and rows of usage are counted once, whatever ends and however many run next.
 */
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import {
  completion,
  type GatewayProcess,
  metric,
  model,
  organisation,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import type { Started } from '../support/processes.ts';
import { until } from '../support/until.ts';

type Workers = Started<
  GatewayProcess['ready'] & {
    readonly workers: readonly { readonly name: string; readonly pid: number; readonly metrics: string }[];
  }
>;

const fleet = new ProcessFleet();
const perMinute = 40;
let admin: DevAdmin;
let key: string;
let limitedKey: string;
/** Requests that were answered with 200. */
let answered = 0;

beforeAll(async () => {
  const plane = await fleet.startPlane();
  admin = fleet.admin(plane);
  const node = await fleet.simNode('node', '--models', model, '--tokens-per-second', '20');
  const small = smallFleet(node.ready.url);
  await admin.apply({
    ...small,
    tiers: [...(small.tiers ?? []), { id: 'Few', models: '*', requestsPerMinute: perMinute }],
    organisations: [...(small.organisations ?? []), { id: 'few', name: 'Few', tier: 'Few' }],
  });
  key = (await admin.createKey(organisation, 'k')).value;
  limitedKey = (await admin.createKey('few', 'k')).value;
}, 120_000);
afterAll(() => fleet.close());

const start = (workers: number, ...flags: string[]): Promise<Workers> =>
  fleet.serve('gateway', 'gw', ['--workers', String(workers), ...flags]);

async function ask({ ready }: Workers, more: Readonly<Record<string, unknown>> = {}): Promise<number> {
  const status = await statusWith(ready.api, key, { max_tokens: 1, ...more });
  if (status === 200) answered++;
  return status;
}

const connection = { headers: { connection: 'close' } };

/** Asks on connections of their own until each of these gateways completed a request. */
async function untilAllServed(gateway: Workers): Promise<void> {
  const served = async ({ metrics }: { readonly metrics: string }) =>
    Number.isFinite(
      await metric(
        { ready: { metrics } },
        `gen_ai_client_token_usage_count{gen_ai_token_type="output",model="${model}"}`,
      ),
    );
  await until(async () => {
    const response = await completion(gateway.ready.api, key, { max_tokens: 1 }, connection);
    await response.text();
    if (response.status === 200) answered++;
    return (await Promise.all(gateway.ready.workers.map(served))).every(Boolean);
  }, 60_000);
}

async function usageRows(): Promise<number> {
  const usage = await admin.call('GET', `/usage?organisation=${organisation}`);
  return Number(usage['requests']);
}

/** Runs the work while nobody can append to the usage log. */
async function withoutUsageLog(work: () => Promise<void>): Promise<void> {
  const log = openDatabase(join(fleet.logFolder, 'headgate.usage.db'), { durability: 'normal' });
  log.exec('BEGIN IMMEDIATE');
  try {
    await work();
  } finally {
    log.exec('ROLLBACK');
    log.close();
  }
}

/** An orphan that has ended may wait to be reaped. */
function isRunning(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`).length > 0;
  } catch {
    return false;
  }
}

async function isFree(api: string): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(Number(new URL(api).port), '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

async function names(): Promise<string[]> {
  const { items } = await admin.call('GET', '/gateways');
  return (items as { readonly name: string }[]).map(({ name }) => name).sort();
}

test('each worker process serves the port, is a gateway of its own name, and one that is killed is replaced', async () => {
  const gateway = await start(2);
  const { workers, metrics } = gateway.ready;
  expect(workers.map(({ name }) => name)).toEqual(['gw/1', 'gw/2']);
  await untilAllServed(gateway);
  await until(async () => (await names()).length === 2);
  expect(await names()).toEqual(['gw/1', 'gw/2']);
  const commandLine = readFileSync(`/proc/${workers[0]?.pid}/cmdline`, 'utf8');
  expect(commandLine.includes('--single-threaded-gc')).toBe(availableParallelism() <= 2);
  expect(await metric(gateway, 'headgate_workers_serving')).toBe(2);
  process.kill(workers[1]?.pid ?? 0, 'SIGKILL');
  await until(async () => (await metric(gateway, 'headgate_workers_serving')) === 1);
  // Not ready would take all of them from the balancer.
  expect((await fetch(`${metrics}/readyz`)).status).toBe(200);
  expect(await ask(gateway)).toBe(200);
  await until(async () => (await metric(gateway, 'headgate_workers_serving')) === 2, 60_000);
  expect(await metric(gateway, 'headgate_worker_restarts_total')).toBe(1);
  expect(gateway.stderr()).toContain('a worker process ended; another is started');
  await gateway.end();
  expect([gateway.child.exitCode, gateway.stderr()]).toEqual([0, expect.anything()]);
});

test('limits hold over the worker processes, and each of them that serves has to be ready', async () => {
  const gateway = await start(2);
  const statuses = await Promise.all(
    Array.from({ length: 3 * perMinute }, async () => {
      const body = { max_tokens: 1 };
      const response = await completion(gateway.ready.api, limitedKey, body, connection);
      await response.text();
      return response.status;
    }),
  );
  expect([...new Set(statuses)].sort()).toEqual([200, 429]);
  // A minute may end in between.
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(2 * perMinute);
  const stopped = gateway.ready.workers[0]?.pid ?? 0;
  process.kill(stopped, 'SIGSTOP');
  expect((await fetch(`${gateway.ready.metrics}/readyz`)).status).toBe(503);
  process.kill(stopped, 'SIGCONT');
  await until(async () => (await fetch(`${gateway.ready.metrics}/readyz`)).status === 200);
  await gateway.end();
});

test('where all are full a connection is ended, and SIGTERM to the parent and to its processes drains streams', async () => {
  const most = ['--max-connections', '8', '--max-connections-per-address', '8'];
  const gateway = await start(2, '--drain-timeout', '30', ...most);
  const sockets = Array.from({ length: 18 }, () => connect(Number(new URL(gateway.ready.api).port)));
  for (const socket of sockets) socket.on('error', () => undefined).resume();
  // More where one process came to its bound before the other.
  await until(() => sockets.filter(({ closed }) => closed).length >= sockets.length - 16);
  for (const socket of sockets) socket.destroy();
  // Until a gateway has seen that they are gone it ends further ones.
  await until(async () => (await ask(gateway).catch(() => 0)) === 200);
  const streams = Array.from({ length: 4 }, async () => {
    const body = { stream: true, max_tokens: 30 };
    const response = await completion(gateway.ready.api, key, body, connection);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    return { reader, text: (await reader?.read())?.value ?? '' };
  });
  const begun = await Promise.all(streams);
  const ended = gateway.end();
  for (const { pid } of gateway.ready.workers) process.kill(pid, 'SIGTERM');
  for (const { reader, text: first } of begun) {
    let text = first;
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read())
      text += part.value;
    expect(text).toContain('data: [DONE]');
    answered++;
  }
  await ended;
  expect(gateway.child.exitCode).toBe(0);
  expect(await isFree(gateway.ready.api)).toBe(true);
});

/** Has each process complete requests whose rows stay in its folder, and kills the parent. */
async function leaveUsage(gateway: Workers): Promise<void> {
  const before = await usageRows();
  await withoutUsageLog(async () => {
    await untilAllServed(gateway);
    // Rows go to their file within 10 ms, on a busy machine later.
    await new Promise((resolve) => setTimeout(resolve, 300));
    await gateway.end('SIGKILL');
    await until(() => gateway.ready.workers.every(({ pid }) => !isRunning(pid)));
  });
  expect(await isFree(gateway.ready.api)).toBe(true);
  expect(await usageRows()).toBe(before);
  expect(answered).toBeGreaterThan(before);
}

test('with the parent all end, and what they left is published once, however many processes run next', async () => {
  await until(async () => (await usageRows()) === answered, 60_000);
  await leaveUsage(await start(3));
  const one: Workers = await fleet.serve('gateway', 'gw');
  await until(async () => (await usageRows()) === answered, 60_000);
  await leaveUsage({ ...one, ready: { ...one.ready, workers: [{ ...one.ready, name: 'gw' }] } });
  const two = await start(2);
  await until(async () => (await usageRows()) === answered, 60_000);
  await two.end();
});

test('processes that cannot start end the parent, with the code and the words of the first', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as AddressInfo;
  const data = join(fleet.dir, 'none');
  const run = (...more: string[]) => fleet.cli(['gateway', '--data', data, '--workers', '2', ...more]);
  const busy = await run('--port', String(port), '--metrics-port', '0');
  expect([busy.code, busy.stderr.match(/is taken by another process/g)]).toEqual([1, [expect.anything()]]);
  taken.close();
  for (const [flags, text] of [
    [['--advertise', 'https://gw.example.net'], '--advertise'],
    [['--metrics-port', '65534'], '--metrics-port'],
    [['--name', 'x'.repeat(199)], '--name'],
  ] as const) {
    const { code, stderr } = await run(...flags);
    expect([code, stderr]).toEqual([2, expect.stringContaining(text)]);
  }
});
