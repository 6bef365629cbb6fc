/**
 * Tests a running fleet whose status topic is moved away. Until it is back, no revocation may be confirmed, and the command
 * must say why.
 */
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RevokingFleet, serving } from '../support/revoking-fleet.ts';
import { health } from './clients.ts';

let fleet: RevokingFleet;
beforeEach(() => {
  fleet = new RevokingFleet();
});
afterEach(() => fleet.close());

test('key revoke --wait exits 5 and names a missing topic, and once it is back every gateway confirms', async () => {
  const plane = await fleet.startPlane('cp-1');
  await fleet.fill(plane);
  const gateway = await fleet.startGateway('edge-1', serving);
  expect((await fleet.revoke(plane, await fleet.key(plane), 30)).code).toBe(0);
  const key = await fleet.key(plane);

  const away = join(fleet.dir, 'away');
  mkdirSync(away);
  for (const file of readdirSync(fleet.logFolder))
    if (file.startsWith('headgate.status.db')) renameSync(join(fleet.logFolder, file), join(away, file));
  const run = await fleet.revoke(plane, key, 3);
  expect([run.code, run.stderr]).toEqual([5, expect.stringMatching(/headgate\.status\.db/)]);
  expect(run.stderr).toMatch(/were not read to their end/);
  for (const { ready } of [plane, gateway]) expect((await health(ready.metrics, '/livez')).status).toBe(200);

  // Starting another process creates the topic again.
  await fleet.startGateway('edge-2', serving);
  const after = await fleet.revoke(plane, await fleet.key(plane), 60);
  expect(after.code, after.stderr).toBe(0);
  expect(after.stdout).toMatch(/edge-1 {2}confirmed/);
  expect(after.stdout).toMatch(/edge-2 {2}confirmed/);
});
