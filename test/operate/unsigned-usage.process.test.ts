/**
 * Tests usage rows that a control plane refuses, with real processes. Rows from a gateway with an unknown token must not be
 * lost, and rows without a MAC must not count.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { usageTopic } from '../../schemas/records/usage.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import { checksIn, isFault } from '../support/checks.ts';
import {
  type GatewayProcess,
  metric,
  model,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const waitMs = 60_000;
const fleet = new ProcessFleet({ timeoutMs: 60_000 });
const nextToken = 'next-token-of-the-gateways';
let node: SimNode;
let plane: Plane;
let gateway: GatewayProcess;
let key: string;

async function serve(flags: readonly string[] = [], env: Record<string, string> = {}): Promise<void> {
  await plane?.end('SIGTERM');
  plane = await fleet.startPlane('cp', { flags, env });
}

beforeAll(async () => {
  node = await startSimNode({ models: [model], tokensPerSecond: 0 });
  await serve();
  await fleet.admin(plane).apply(smallFleet(node.url));
  key = (await fleet.admin(plane).createKey('acme', 'k')).value;
}, 180_000);
afterAll(async () => {
  await fleet.close();
  await node.close();
});

const requests = async (): Promise<number> =>
  Number((await fleet.admin(plane).call('GET', '/usage?organisation=acme'))['requests']);

const outcome = (name: string): Promise<number> =>
  metric(plane, `headgate_usage_rows_total{outcome="${name}"}`);

async function findings(): Promise<string[]> {
  const env = { HEADGATE_ADMIN: plane.ready.admin };
  const { stdout } = await fleet.cli(['doctor', '--skip', 'machine', '-o', 'json'], env);
  return checksIn(stdout)
    .filter(isFault)
    .map(({ code }) => code);
}

test('a gateway’s usage under another token counts once, after a start with that token', async () => {
  gateway = await fleet.serve('gateway', 'gw', [], { HEADGATE_GATEWAY_TOKEN: nextToken });
  await until(async () => (await statusWith(gateway.ready.api, key)) === 200, waitMs);
  await until(async () => (await outcome('wrong_mac')) > 0, waitMs);
  expect(await requests()).toBe(0);
  for (const more of [
    { HEADGATE_GATEWAY_TOKEN_PREVIOUS: nextToken },
    { HEADGATE_GATEWAY_TOKEN: nextToken },
  ]) {
    await serve([], more);
    await until(async () => (await requests()) === 1, waitMs);
  }
  // The restarted gateway signs the rows that wait in its outbox with its new token, because rows are signed only when they
  // are published.
  await gateway.end('SIGTERM');
  gateway = await fleet.serve('gateway', 'gw');
  await serve([], { HEADGATE_GATEWAY_TOKEN_PREVIOUS: nextToken });
  expect(await statusWith(gateway.ready.api, key)).toBe(200);
  await until(async () => (await requests()) === 2, waitMs);
  expect(await outcome('wrong_mac')).toBe(0);
}, 300_000);

test('usage without a MAC does not count, and doctor names it', async () => {
  const period = String((await fleet.admin(plane).call('GET', '/usage?organisation=acme'))['period']);
  const incarnation = randomUUID();
  const append = async (n: number): Promise<void> => {
    const log = await openLog(fleet.logUrl, { topic: usageTopic, partition: 0 }, { allowTrimmed: true });
    const what = { organisation: 'acme', period, draw: 'pool', model, promptTokens: 1, completionTokens: 1 };
    const row = { v: 1, incarnation, n, at: new Date().toISOString(), ...what, requestId: `r-${n}` };
    await log.append(Buffer.from(JSON.stringify([row])));
    await log.close();
  };
  const before = await requests();
  await append(1);
  await until(async () => (await outcome('unsigned')) === 1, waitMs);
  await serve([], { HEADGATE_GATEWAY_TOKEN_PREVIOUS: nextToken });
  await until(async () => (await outcome('unsigned')) === 1, waitMs);
  expect(await findings()).toContain('HG2016');
  expect(await requests()).toBe(before);
}, 300_000);
