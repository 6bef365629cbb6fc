/**
 * Tests that `key revoke --wait` exits with 0 only if every gateway applies the revocation (design 4: Revocation confirmed).
 * Covers processes that are suspended, duplicated, on another log, or silent for longer than the status topic keeps reports.
 */
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StatusReport } from '../../schemas/records/status.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import type { Plane } from '../support/process-fleet.ts';
import { askWith, RevokingFleet, serving } from '../support/revoking-fleet.ts';

let fleet: RevokingFleet;
beforeEach(() => {
  fleet = new RevokingFleet();
});
afterEach(() => fleet.close());

const listedAs = (plane: Plane, name: string) =>
  expect.poll(async () => (await fleet.listed(plane)).find((gateway) => gateway.name === name), {
    timeout: 30_000,
  });

/** Removes the control log and the control plane's state, and starts a new log. */
async function beginAgain(plane: Plane): Promise<Plane> {
  await plane.end();
  const lost = join(fleet.dir, 'lost');
  mkdirSync(lost);
  for (const file of readdirSync(fleet.logFolder))
    if (file.startsWith('headgate.control.db')) renameSync(join(fleet.logFolder, file), join(lost, file));
  return fleet.startPlane('cp-2');
}

/** Deletes all reports so far, as happens after a day because of the topic's retention. */
function forgetReports(): void {
  const db = openDatabase(join(fleet.logFolder, 'headgate.status.db'), {
    durability: 'normal',
    busyTimeoutMs: 5000,
  });
  db.exec('DELETE FROM record');
  db.close();
}

test('a gateway at a higher position of an old log confirms nothing for the log that replaced it', async () => {
  let plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  for (let n = 0; n < 40; n++)
    await plane.admin.call('PUT', '/organisations/acme/members/max', { role: n % 2 ? 'viewer' : 'member' });
  const key = await fleet.key(plane);
  const gateway = await fleet.startGateway('edge-1', serving);
  await listedAs(plane, 'edge-1').toMatchObject({ state: 'SYNCED' });
  await expect.poll(() => askWith(gateway, key), { timeout: 30_000 }).toBe(200);

  plane = await beginAgain(plane);
  await fleet.fill(plane);
  const { position } = await plane.admin.call('GET', '/status');
  await listedAs(plane, 'edge-1').toMatchObject({ state: 'LAGGING' });
  const held = (await fleet.listed(plane)).find(({ name }) => name === 'edge-1');
  expect(held?.applied).toBeGreaterThan(position + 1);

  const run = await fleet.revoke(plane, await fleet.key(plane), 4);
  expect([run.code, await askWith(gateway, key)], run.stdout + run.stderr).toEqual([5, 200]);
  expect(run.stderr).toContain('edge-1');
});

test('two gateways with one name must both confirm, and are shown as a conflict', async () => {
  const plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  const key = await fleet.key(plane);
  const first = await fleet.startGateway('one', { flags: ['--name', 'edge-1', ...serving.flags] });
  await fleet.startGateway('two', { flags: ['--name', 'edge-1', ...serving.flags] });
  await expect.poll(() => askWith(first, key), { timeout: 30_000 }).toBe(200);

  first.child.kill('SIGSTOP');
  const run = await fleet.revoke(plane, key, 4);
  expect(run.code, run.stdout + run.stderr).toBe(5);
  expect(run.stderr).toContain('edge-1');
  const rows = (await fleet.listed(plane)).filter(({ name }) => name === 'edge-1');
  expect(rows).toHaveLength(2);
  for (const row of rows) expect(row.conflict).toMatch(/2 processes/);
  const { stdout } = await fleet.run(plane, 'gateway', 'list');
  expect(stdout).toMatch(/CONFLICT/);
  const ready = await (await fetch(`${plane.ready.metrics}/readyz?verbose`)).text();
  expect(ready).toMatch(/edge-1.*2 processes|2 processes.*edge-1/);

  first.child.kill('SIGCONT');
  const position = await plane.admin.position();
  expect(await plane.admin.confirmed(position, 30)).toMatchObject({ complete: true });
  expect(await askWith(first, key)).toBe(401);
});

test('nothing is confirmed before the reports from before the start are read', async () => {
  const before = await fleet.startPlane('cp-1');
  await fleet.fill(before);
  const key = await fleet.key(before);
  const gateway = await fleet.startGateway('edge-1', serving);
  await expect.poll(() => askWith(gateway, key), { timeout: 30_000 }).toBe(200);
  gateway.child.kill('SIGSTOP');
  await before.end();
  // Inserts records that take seconds to read before the gateway's reports.
  const db = openDatabase(join(fleet.logFolder, 'headgate.status.db'), { durability: 'normal' });
  const { first } = db.prepare('SELECT min(offset) AS first FROM record').get() as { first: number };
  const shift = 200_000;
  db.exec('BEGIN');
  db.exec(`UPDATE record SET offset = -offset - 1`);
  db.exec(`UPDATE record SET offset = -offset - 1 + ${shift}`);
  const junk = db.prepare('INSERT INTO record (offset, at_ms, value, signature) VALUES (?, ?, ?, NULL)');
  const value = Buffer.from('{"v":1,"name":"nobody"}');
  for (let n = 0; n < shift; n++) junk.run(first + n, Date.now(), value);
  db.exec('COMMIT');
  db.close();

  // This replica is new, so it has no memory of the gateway.
  const plane = await fleet.startPlane('cp-2');
  const run = await fleet.revoke(plane, key, 4);
  expect(run.code, run.stdout + run.stderr).toBe(5);
  await listedAs(plane, 'edge-1').toBeDefined();
  const position = await plane.admin.position();
  expect(await plane.admin.confirmed(position, 1)).toMatchObject({
    complete: false,
    gateways: [{ name: 'edge-1', confirmed: false }],
  });
});

test('a gateway with `serve` that is silent for longer than reports are kept is named but never confirmed', async () => {
  let plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  const key = await fleet.key(plane);
  const gateway = await fleet.startGateway('edge-1', serving);
  await listedAs(plane, 'edge-1').toMatchObject({ state: 'SYNCED' });
  await expect.poll(() => askWith(gateway, key), { timeout: 30_000 }).toBe(200);
  gateway.child.kill('SIGSTOP');
  await plane.end();
  forgetReports();

  plane = await fleet.startPlane('cp-1');
  const run = await fleet.revoke(plane, key, 3);
  expect(run.code, run.stdout + run.stderr).toBe(5);
  expect(run.stderr).toContain('edge-1');
  await listedAs(plane, 'edge-1').toMatchObject({ state: 'STALE' });

  // A replica with an empty folder learns about the gateway from the other replicas.
  const second = await fleet.startPlane('cp-2');
  await listedAs(second, 'edge-1').toMatchObject({ state: 'STALE' });
  expect((await fleet.run(second, 'gateway', 'list')).stdout).toContain('edge-1');

  // Once resumed, the gateway catches up and confirms.
  gateway.child.kill('SIGCONT');
  const position = await plane.admin.position();
  await expect
    .poll(async () => (await plane.admin.confirmed(position, 5)).complete, { timeout: 60_000 })
    .toBe(true);
  expect(await askWith(gateway, key)).toBe(401);
});

test('a killed gateway is waited for, across control plane restarts, until an operator forgets it', async () => {
  let plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  const lives = await fleet.startGateway('lives', serving);
  const killed = await fleet.startGateway('killed', serving);
  await listedAs(plane, 'killed').toMatchObject({ state: 'SYNCED' });
  await killed.end('SIGKILL');
  const waited = await fleet.revoke(plane, await fleet.key(plane), 2);
  expect([waited.code, waited.stderr]).toEqual([5, expect.stringContaining('killed')]);

  await plane.end('SIGKILL');
  plane = await fleet.startPlane('cp-1');
  expect((await fleet.revoke(plane, await fleet.key(plane), 2)).code).toBe(5);
  expect(await fleet.run(plane, 'gateway', 'forget', 'killed')).toMatchObject({ code: 2 });
  expect(await fleet.run(plane, 'gateway', 'forget', 'killed', '--dry-run')).toMatchObject({ code: 0 });
  await listedAs(plane, 'killed').toBeDefined();
  expect(await fleet.run(plane, 'gateway', 'forget', 'nobody', '--yes')).toMatchObject({ code: 3 });
  expect(await fleet.run(plane, 'gateway', 'forget', 'killed', '--yes')).toMatchObject({
    code: 0,
    stdout: 'gateway killed forgotten\n',
  });
  await listedAs(plane, 'killed').toBeUndefined();
  const run = await fleet.revoke(plane, await fleet.key(plane), 30);
  expect([run.code, run.stdout], run.stderr).toEqual([0, expect.stringMatching(/lives +confirmed/)]);

  // A gateway that still runs stays visible after `gateway forget`: both the command and the gateway list report it.
  expect(await fleet.run(plane, 'gateway', 'forget', 'lives', '--yes')).toMatchObject({
    ...{ code: 0, stderr: expect.stringContaining('lives reported in the last ten seconds') },
  });
  lives.child.kill('SIGSTOP');
  const forgotten = await fleet.revoke(plane, await fleet.key(plane), 2);
  expect([forgotten.code, forgotten.stderr]).toEqual([5, expect.stringContaining('lives')]);
});

test('no person may forget a gateway, whatever their role', async () => {
  const plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  await plane.admin.call('PUT', '/organisations/acme/members/ana', { role: 'owner' });
  await fleet.startGateway('edge-1');
  await listedAs(plane, 'edge-1').toBeDefined();
  const run = await fleet.run(plane, '--as', 'ana', 'gateway', 'forget', 'edge-1', '--yes');
  expect(run).toMatchObject({ code: 4 });
  expect(await fleet.listed(plane)).toHaveLength(1);
});

test('a killed gateway restarted on its folder counts as one, and a stopped one is not waited for', async () => {
  const plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  const stopped = await fleet.startGateway('stopped', serving);
  const first = await fleet.startGateway('edge-1', serving);
  await listedAs(plane, 'edge-1').toBeDefined();
  await first.end('SIGKILL');
  await stopped.end();
  await fleet.startGateway('edge-1', serving);
  await listedAs(plane, 'edge-1').toMatchObject({ state: 'SYNCED' });
  expect(await fleet.listed(plane)).toEqual([expect.not.objectContaining({ conflict: expect.anything() })]);
  const run = await fleet.revoke(plane, await fleet.key(plane), 30);
  expect([run.code, run.stdout], run.stderr).toEqual([0, expect.not.stringContaining('stopped')]);
});

test('write access to the status topic can neither confirm for a gateway nor remove one', async () => {
  const plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  const gateway = await fleet.startGateway('edge-1', serving);
  await listedAs(plane, 'edge-1').toMatchObject({ state: 'SYNCED' });
  gateway.child.kill('SIGSTOP');
  const status = await openStatusLog(`sqlite:${fleet.logFolder}`);
  const stop = new AbortController();
  const end = await status.end();
  let copied: StatusReport | undefined;
  for await (const { records, nextOffset } of status.tail({ from: 0, signal: stop.signal })) {
    for (const { value } of records) {
      const report = JSON.parse(value.toString()) as StatusReport;
      if (report.name === 'edge-1') copied = report;
    }
    if (nextOffset >= end) break;
  }
  if (copied === undefined) throw new Error('no report of the gateway is on the topic');
  const forged = { ...copied, n: copied.n + 1, applied: 1_000_000 };
  for (const mac of [null, new StatusMac(fleet.env['HEADGATE_OPERATOR_TOKEN'] ?? '')])
    for (const record of [forged, { ...forged, stopped: true }]) {
      const value = Buffer.from(JSON.stringify(record));
      await status.append(value, mac?.of(value));
    }
  await status.close();

  const run = await fleet.revoke(plane, await fleet.key(plane), 3);
  expect([run.code, run.stderr]).toEqual([5, expect.stringContaining('edge-1')]);
  const metrics = await (await fetch(`${plane.ready.metrics}/metrics`)).text();
  expect(metrics).toMatch(/headgate_status_ignored_total\{cause="unsigned"\} 2\n/);
  expect(metrics).toMatch(/headgate_status_ignored_total\{cause="wrong_mac"\} 2\n/);
  expect(plane.stderr()).toMatch(/status records were ignored/);
});
