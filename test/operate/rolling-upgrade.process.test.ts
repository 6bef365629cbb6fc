/**
 * Runs two builds on one log: this build, and a patched copy that knows two more events. Their states must not diverge. Both
 * skip an unknown event that is not critical. At an unknown critical event the old build stops with its last good state and
 * reports this, while the new build continues.
 */

import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import type { StoredEvent } from '../../schemas/events/events.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { ProcessFleet } from '../support/process-fleet.ts';

const fleet = new ProcessFleet();
const root = new URL('../../', import.meta.url).pathname;

/**
 * Patches a copy of the build. The copy has the next fold version and knows `model.praised` and the critical `model.retired`.
 */
function newerBuild(): string {
  const to = join(fleet.dir, 'newer');
  for (const part of ['dist', 'package.json', 'schemas'])
    cpSync(join(root, part), join(to, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(to, 'node_modules'));
  const patch = (file: string, before: string, after: string) => {
    const path = join(to, 'dist', file);
    const text = readFileSync(path, 'utf8');
    expect(text).toContain(before);
    writeFileSync(path, text.replace(before, after));
  };
  const parts = `foldVersion: ${foldVersion + 1}, data: ({ modelId }) => ({ id: modelId })`;
  const types = `'model.retired': event({ ${parts} }), 'model.praised': event({ critical: false, ${parts} }),`;
  patch('schemas/events/events-tenants.js', 'tenantEvents = {', `tenantEvents = { ${types}`);
  const write = '{ fold: (tables, { id }) => { tables.pool_model.put({ model: id }); return undefined; } }';
  patch(
    'shared/snapshot/effects.js',
    '...tenantEffects,',
    `...tenantEffects, 'model.retired': ${write}, 'model.praised': ${write},`,
  );
  return join(to, 'dist/cli/headgate.js');
}

async function start<Ready>(name: string, args: readonly string[], build?: string): Promise<Ready> {
  const own = ['--data', join(fleet.dir, name), '--name', name, '--port', '0', '--metrics-port', '0'];
  return (await fleet.start<Ready>(name, [...args, ...own], {}, build)).ready;
}

let admin: DevAdmin;
let oldGateway: string;
let newGateway: string;
beforeAll(async () => {
  const newer = newerBuild();
  const ready = await start<{ admin: string }>('cp-new', ['control-plane'], newer);
  admin = fleet.admin({ ready });
  oldGateway = (await start<{ metrics: string }>('gw-old', ['gateway', '--control-plane', ready.admin]))
    .metrics;
  newGateway = (
    await start<{ metrics: string }>('gw-new', ['gateway', '--control-plane', ready.admin], newer)
  ).metrics;
}, 120_000);
afterAll(() => fleet.close(), 60_000);

/** Appends one commit with the event, as another build might. */
async function append(event: StoredEvent): Promise<number> {
  const log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
  const snapshot = memorySnapshot();
  try {
    for await (const records of batchesToEnd(log)) snapshot.apply(records);
    expect(snapshot.halt).toBeUndefined();
    const at = new Date().toISOString();
    const id = `raw-${event.type}`;
    await log.append(composeCommit({ head: snapshot.head, id, at, by: 'newer', events: [event] }));
    return snapshot.seq + 1;
  } finally {
    snapshot.close();
    await log.close();
  }
}

async function listed(name: string): Promise<GatewayStatus> {
  const { items } = await admin.call('GET', '/gateways');
  return items.find((item) => item.name === name)!;
}

async function appliedBy(name: string, position: number): Promise<void> {
  await expect
    .poll(async () => (await listed(name)).applied, { timeout: 30_000 })
    .toBeGreaterThanOrEqual(position);
}

/** Whether freshness is proven and nothing is quarantined. */
async function isReady(metrics: string): Promise<boolean> {
  return (await fetch(`${metrics}/readyz`)).status === 200;
}

test('an unknown event that is not critical is skipped: no divergence and no fence on either build', async () => {
  const position = await append({ type: 'model.praised', v: 1, critical: false, data: { id: 'praised' } });
  for (const name of ['gw-old', 'gw-new']) {
    await appliedBy(name, position);
    expect(await listed(name)).toMatchObject({ state: 'SYNCED' });
    expect((await listed(name)).halted).toBeUndefined();
  }
  expect(await Promise.all([oldGateway, newGateway].map(isReady))).toEqual([true, true]);
});

test('at an unknown critical event the old build stops, keeps its last good state and says why', async () => {
  const before = (await listed('gw-old')).applied;
  const position = await append({ type: 'model.retired', v: 1, critical: true, data: { id: 'retired' } });
  await appliedBy('gw-new', position);
  expect(await listed('gw-new')).toMatchObject({ state: 'SYNCED' });
  await expect
    .poll(async () => (await listed('gw-old')).halted, { timeout: 30_000 })
    .toContain('model.retired');
  expect(await listed('gw-old')).toMatchObject({ state: 'LAGGING', applied: before });
  expect(await Promise.all([oldGateway, newGateway].map(isReady))).toEqual([true, true]);
});
