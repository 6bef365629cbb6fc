/** Data folders that version 0.1.0 wrote are taken over: the log, the totals, and the outbox with its replica. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type GatewayProcess, type Plane, ProcessFleet, statusWith } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const archive = new URL('../fixtures/data-0.1.0.tar.gz', import.meta.url).pathname;
const fleet = new ProcessFleet();
const recorded = join(fleet.dir, 'recorded');
let facts: { kept: string; revoked: string; usage: Record<string, unknown>; log: string; position: number };
let plane: Plane;
let gateway: GatewayProcess;

beforeAll(async () => {
  mkdirSync(recorded);
  execFileSync('tar', ['-xzf', archive, '-C', recorded]);
  facts = JSON.parse(readFileSync(join(recorded, 'facts.json'), 'utf8')) as typeof facts;
  for (const name of ['log', 'cp', 'gw'])
    cpSync(join(recorded, name), join(fleet.dir, name), { recursive: true });
  plane = await fleet.serve('control-plane', 'cp');
  gateway = await fleet.serve('gateway', 'gw', ['--control-plane', plane.ready.admin]);
});
afterAll(() => fleet.close());

test('a control plane continues the log of 0.1.0, with its totals', async () => {
  const status = (await fleet.admin(plane).call('GET', '/status')) as unknown as typeof facts;
  expect(status.log).toBe(facts.log);
  expect(status.position).toBeGreaterThanOrEqual(facts.position);
  const { period, requests, totalTokens, models } = facts.usage;
  const path = `/usage?organisation=acme&period=${String(period)}`;
  expect(await fleet.admin(plane).call('GET', path)).toMatchObject({ requests, totalTokens, models });
});

test('a gateway continues with the keys, and its outbox is upgraded', async () => {
  // The node is gone, so that an accepted key gets another refusal.
  expect(await statusWith(gateway.ready.api, facts.kept)).not.toBe(401);
  expect(await statusWith(gateway.ready.api, facts.revoked)).toBe(401);
  await until(async () => {
    const { items } = await fleet.admin(plane).call('GET', '/gateways');
    return items.some(({ name, state }) => name === 'gw' && state === 'SYNCED');
  }, 60_000);
});
