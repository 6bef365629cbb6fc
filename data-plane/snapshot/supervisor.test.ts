/**
 * Tests that a gateway recovers from a snapshot that was edited by hand, and from a log that is missing or was replaced with
 * another.
 */

import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { scaledMs } from '../../test/support/budget.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { quickRecovery, startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { forgePositionIn } from '../../test/support/forged-position.ts';
import { statusWith } from '../../test/support/process-fleet.ts';
import { startGateway } from '../main.ts';

/** Pauses that are long enough to observe the answers of a gateway whose snapshot is quarantined, before it is rebuilt. */
const visibleRecovery = { ...quickRecovery, rebuildPauseMs: 700, rebuildPauseMsMax: 700 };
let fleet: TestFleet;
let serving: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ gateways: 2, gateway: { intervals: visibleRecovery } });
  serving = await startFleet({ gateway: { whenStale: 'serve', intervals: quickRecovery } });
});
afterAll(async () => {
  await fleet?.close();
  await serving?.close();
});

async function listed(of: TestFleet, name: string): Promise<GatewayStatus> {
  const { items } = await of.admin.call('GET', '/gateways');
  return items.find((gateway) => gateway.name === name)!;
}

function statusOf(of: TestFleet, key: string, gateway = 0): Promise<number> {
  return statusAt(of.port(gateway), key);
}

function statusAt(port: number, key: string): Promise<number> {
  return statusWith(`http://127.0.0.1:${port}/v1`, key);
}

async function organisationOf(of: TestFleet): Promise<string> {
  return (await of.admin.organisations()).find(({ tier }) => tier === 'Platinum')!.id;
}

async function readiness(of: TestFleet): Promise<{ status: number; text: string }> {
  const response = await fetch(`${of.gateways[0]!.metrics}/readyz?verbose`);
  return { status: response.status, text: await response.text() };
}

test('a row changed by hand shows as DIVERGED within 10 s, its key is refused, and it is rebuilt live', async () => {
  const { id, value } = await fleet.key(await organisationOf(fleet));
  await fleet.admin.call('POST', `/keys/${id}/revoke`, {});
  const { value: good } = await fleet.key(await organisationOf(fleet));
  await fleet.settle();
  expect(await statusOf(fleet, value)).toBe(401);
  const path = join(fleet.dir, 'gateway-1', 'state.db');
  const byHand = openDatabase(path, { durability: 'normal', busyTimeoutMs: 5000 });
  byHand.prepare('UPDATE api_key SET revoked_at = NULL WHERE id = ?').run(id);
  byHand.close();
  const state = async () => (await listed(fleet, 'gateway-1')).state;
  await expect.poll(state, { timeout: scaledMs(10_000), interval: 20 }).toBe('DIVERGED');
  expect((await listed(fleet, 'gateway-1')).halted).toContain('api_key');
  expect(await statusOf(fleet, good)).toBe(503);
  expect((await readiness(fleet)).status).toBe(503);
  expect((await readiness(fleet)).text).toContain('quarantined and being rebuilt');
  expect(await statusOf(fleet, good, 1)).toBe(200);
  await expect.poll(state, { timeout: 30_000 }).toBe('SYNCED');
  expect(await statusOf(fleet, good)).toBe(200);
  expect(await statusOf(fleet, value)).toBe(401);
  expect((await readiness(fleet)).status).toBe(200);
  expect(existsSync(`${path}.aside`)).toBe(true);
  const later = await fleet.key(await organisationOf(fleet));
  await fleet.settle();
  expect(await statusOf(fleet, later.value)).toBe(200);
});

test('a position changed by hand is noticed while the gateway runs, and the snapshot is rebuilt', async () => {
  await fleet.settle();
  const path = join(fleet.dir, 'gateway-2', 'state.db');
  const byHand = openDatabase(path, { durability: 'normal', busyTimeoutMs: 5000 });
  byHand.exec('UPDATE position SET next_offset = 4611686018427387904');
  byHand.close();
  const standing = async () => await listed(fleet, 'gateway-2');
  await expect
    .poll(async () => (await standing()).halted ?? '', { timeout: 10_000, interval: 20 })
    .toContain('position does not match its checksum');
  await expect.poll(async () => (await standing()).state, { timeout: 30_000 }).toBe('SYNCED');
  expect(existsSync(`${path}.aside`)).toBe(true);
});

test.each([
  ['is after the end of the log', 'next_offset = 4611686018427387904'],
  ['belongs to no commit', 'seq = -1'],
  ['belongs to a commit that the log does not have', 'seq = 9007199254740992'],
  ['belongs to another log', "log = 'another-log'"],
])(
  'a gateway that starts on a state whose position %s reaches the state of its log',
  async (what, columns) => {
    const dataDir = join(fleet.dir, what);
    const settings = { ...fleet.gatewaySettings(7), name: what, dataDir, intervals: quickRecovery };
    mkdirSync(settings.dataDir, { mode: 0o700 });
    const path = join(settings.dataDir, 'state.db');
    const source = openExisting(join(fleet.dir, 'control-plane', 'state.db'), { readOnly: true });
    source.db.prepare('VACUUM INTO ?').run(path);
    source.db.close();
    forgePositionIn(path, `UPDATE position SET ${columns}`);
    const gateway = await startGateway(settings);
    try {
      const { value } = await fleet.key(await organisationOf(fleet));
      const status = () => statusAt(Number(new URL(gateway.api).port), value);
      await expect.poll(status, { timeout: 30_000 }).toBe(200);
      await expect.poll(async () => (await listed(fleet, what)).state).toBe('SYNCED');
    } finally {
      await gateway.close();
    }
  },
);

const controlFile = (of: TestFleet) => join(of.dir, 'log', 'headgate.control.db');

function moveLog(from: string, to: string): void {
  for (const suffix of ['', '-wal', '-shm'])
    if (existsSync(from + suffix)) renameSync(from + suffix, to + suffix);
}

test('moving the log away causes no quarantine: the last good state serves until the log is back', async () => {
  const { value } = await serving.key(await organisationOf(serving));
  await serving.settle();
  const path = controlFile(serving);
  moveLog(path, `${path}.away`);
  const halted = async () => (await listed(serving, 'gateway-1')).halted ?? '';
  await expect.poll(halted, { timeout: 20_000 }).toMatch(/was removed|was replaced/);
  expect((await listed(serving, 'gateway-1')).state).not.toBe('DIVERGED');
  expect(await statusOf(serving, value)).toBe(200);
  expect((await readiness(serving)).status).toBe(200);
  expect(existsSync(path)).toBe(false);
  moveLog(`${path}.away`, path);
  await expect.poll(halted, { timeout: 30_000 }).toBe('');
  await expect.poll(async () => (await listed(serving, 'gateway-1')).state).toBe('SYNCED');
});

test('nothing is served from a different log in its place, even after a restart', async () => {
  const own = await startFleet({ gateway: { whenStale: 'serve', intervals: quickRecovery } });
  try {
    const { value } = await own.key(await organisationOf(own));
    await own.settle();
    const { log: ours } = await own.admin.call('GET', '/status');
    await own.controlPlane.close();
    const path = controlFile(own);
    rmSync(path);
    for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
    const foreign = await openLog(own.logUrl, { topic: 'headgate.control' });
    const writer = new ChainWriter({ log: 'foreign' });
    for (const record of [writer.open(), writer.add([known('pool.model_installed', { model: 'x' })])])
      await foreign.append(record.value);
    await expect
      .poll(async () => (await readiness(own)).text, { timeout: 20_000 })
      .toContain(`this is log foreign, but what was folded came from log ${ours}`);
    expect(await statusOf(own, value)).toBe(200);
    await own.gateways[0]!.close();
    const again = await startGateway(own.gatewaySettings(0));
    try {
      expect(await statusAt(Number(new URL(again.api).port), value)).toBe(200);
      const verbose = async () => (await fetch(`${again.metrics}/readyz?verbose`)).text();
      await expect.poll(verbose).toContain('this is log foreign');
    } finally {
      await again.close();
      await foreign.close();
    }
  } finally {
    await own.close();
  }
});

test('a snapshot found damaged while its log is away is quarantined, and rebuilt once the log is back', async () => {
  const own = await startFleet({ gateway: { whenStale: 'serve', intervals: quickRecovery } });
  try {
    const { value } = await own.key(await organisationOf(own));
    await own.settle();
    const path = controlFile(own);
    moveLog(path, `${path}.away`);
    const text = async () => (await readiness(own)).text;
    await expect.poll(text, { timeout: 20_000 }).toMatch(/was removed|was replaced/);
    const byHand = openDatabase(join(own.dir, 'gateway-1', 'state.db'), { durability: 'normal' });
    byHand.prepare('UPDATE pool_model SET model = ? WHERE model = ?').run('changed', 'echo-small');
    byHand.close();
    await expect.poll(text, { timeout: 20_000 }).toContain('quarantined and being rebuilt');
    moveLog(`${path}.away`, path);
    await expect.poll(text, { timeout: 40_000 }).toContain('trusted');
    expect(await statusOf(own, value)).toBe(200);
  } finally {
    await own.close();
  }
});

test('a snapshot damaged while the log is away is rebuilt soon after the log is back, however long that took', async () => {
  const dataDir = join(serving.dir, 'two-faults');
  let failures = 0;
  const write = (line: string): void => {
    if (line.includes('recovery failed')) failures++;
  };
  const gateway = await startGateway({
    ...{ ...serving.gatewaySettings(8), name: 'two-faults', dataDir, controlPlanes: [] },
    // The maximum is this high, because the fifteenth pause would be five minutes if each attempt doubled the pause.
    intervals: { ...quickRecovery, rebuildPauseMsMax: 600_000 },
    logger: pino({ level: 'warn' }, { write }),
  });
  const path = controlFile(serving);
  try {
    moveLog(path, `${path}.away`);
    const byHand = openDatabase(join(dataDir, 'state.db'), { durability: 'normal', busyTimeoutMs: 5000 });
    byHand.exec("UPDATE organisation SET name = 'by hand'");
    byHand.close();
    await expect.poll(() => failures, { timeout: 20_000 }).toBeGreaterThan(15);
    moveLog(`${path}.away`, path);
    await expect
      .poll(async () => (await listed(serving, 'two-faults')).state, { timeout: 20_000 })
      .toBe('SYNCED');
  } finally {
    await gateway.close();
  }
});
