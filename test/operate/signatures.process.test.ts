/**
 * Tests log signatures as docs/security.md describes them. On a signed log, everyone skips what outsiders write, such as
 * forged keys. Signers can change while a gateway follows. A pin protects against a log that an outsider has signed.
 */

import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ReplicaStatus } from '../../schemas/admin/admin.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import type { CommandRun } from '../support/commands.ts';
import { known } from '../support/commits.ts';
import { statusWith } from '../support/process-fleet.ts';
import { type KeyFile, SignedFleet } from '../support/signed-fleet.ts';

let fleet: SignedFleet;
beforeEach(() => {
  fleet = new SignedFleet();
});
afterEach(async () => {
  await fleet.close();
});

/** Status of a refused key. An accepted key gets 404 or 503 instead, because no node serves the model. */
const refusedKey = 401;
const acme = {
  version: 1,
  models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
  tiers: [{ id: 'Platinum', models: '*' }],
  organisations: [{ id: 'acme', name: 'Acme', tier: 'Platinum' }],
} as Parameters<DevAdmin['apply']>[0];

const statusOf = (client: DevAdmin): Promise<ReplicaStatus> => client.call('GET', '/status');

async function caughtUp(client: DevAdmin): Promise<void> {
  const { position } = await statusOf(client);
  expect((await client.confirmed(position, 30)).complete).toBe(true);
}

function signerCli(admin: string, ...words: string[]): Promise<CommandRun> {
  return fleet.cli(['signer', ...words], { HEADGATE_ADMIN: admin });
}
const fingerprints = (...keys: readonly KeyFile[]): string[] => keys.map(({ fingerprint }) => fingerprint);

async function verbose(metrics: string): Promise<string> {
  return await (await fetch(`${metrics}/readyz?verbose`)).text();
}

test('a process with a signing key refuses an unsigned log and names the next step', async () => {
  const key = fleet.key('own');
  const first = await fleet.controlPlane('cp-1', undefined);
  await first.end();
  const env = { HEADGATE_SIGNING_KEY: key.file };
  const free = ['--port', '0', '--metrics-port', '0', '--data', join(fleet.dir, 'cp-1')];
  for (const more of [{}, { HEADGATE_ALLOW_UNSIGNED: '' }, { HEADGATE_ALLOW_UNSIGNED: 'false' }]) {
    const { code, stderr } = await fleet.cli(['control-plane', ...free], { ...env, ...more });
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining('--allow-unsigned') });
    expect(stderr).toMatch(/not signed[\s\S]*headgate signer add/);
  }
  const dev = [
    'dev',
    '--no-demo',
    '--gateways',
    '0',
    '--admin-port',
    '0',
    '--port',
    '0',
    '--metrics-port',
    '0',
  ];
  const data = ['--data', join(fleet.dir, 'dev')];
  const refused = await fleet.cli([...dev, ...data], env);
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('--allow-unsigned') });
});

test('a log is signed from its first signer on, and everyone skips what outsiders write after that', async () => {
  const key = fleet.key('own');
  const other = fleet.key('other');
  await (await fleet.controlPlane('cp-1', undefined)).end();
  let plane = await fleet.controlPlane('cp-1', key, ['--allow-unsigned']);
  const gateway = await fleet.startGateway('gw-1');
  await plane.admin.apply(acme);
  // The log is not signed, so anyone with write access can create keys.
  const before = await fleet.forgeKey('acme');
  await expect.poll(() => statusWith(gateway.ready.api, before), { timeout: 20_000 }).not.toBe(refusedKey);

  const { admin } = plane.ready;
  expect(await signerCli(admin, 'add', other.publicFile)).toMatchObject({
    code: 6,
    stderr: expect.stringContaining(key.fingerprint),
  });
  expect(await signerCli(admin, 'add', key.file)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('private key'),
  });
  expect(await signerCli(admin, 'add', key.publicFile)).toMatchObject({ code: 0 });
  const status = await statusOf(plane.admin);
  expect(status.signers).toEqual(fingerprints(key));

  const forged = [
    await fleet.forgeKey('acme'),
    await fleet.forgeKey('acme', other.signer),
    await fleet.append(known('log.signers_set', { signers: [other.signer.publicKey] }), other.signer),
  ].filter((value) => typeof value === 'string');
  const { value } = await plane.admin.createKey('acme', 'genuine');
  await caughtUp(plane.admin);
  expect(await statusWith(gateway.ready.api, value)).not.toBe(refusedKey);
  for (const each of forged) expect(await statusWith(gateway.ready.api, each)).toBe(refusedKey);
  expect((await statusOf(plane.admin)).skipped - status.skipped).toBe(3);

  await plane.end();
  const without = fleet.controlPlane('cp-1', undefined);
  await expect(without).rejects.toThrow(/this log is signed/);
  plane = await fleet.controlPlane('cp-1', key);
  expect((await statusOf(plane.admin)).signers).toEqual(fingerprints(key));
});

test('signers are exchanged on two replicas while a gateway follows, and the old key then signs nothing', async () => {
  const [old, one, two] = [fleet.key('old'), fleet.key('one'), fleet.key('two')] as const;
  let first = await fleet.controlPlane('cp-1', old);
  let second = await fleet.controlPlane('cp-2', old);
  const gateway = await fleet.startGateway('gw-1', { flags: ['--trust-signer', old.fingerprint] });
  await first.admin.apply(acme);
  const keys = [(await first.admin.createKey('acme', 'before')).value];

  const { admin } = second.ready;
  expect(await signerCli(admin, 'remove', old.fingerprint, '--yes')).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('last signer'),
  });
  expect(await signerCli(admin, 'add', one.publicFile)).toMatchObject({ code: 0 });
  expect(await signerCli(admin, 'add', two.publicFile)).toMatchObject({ code: 0 });
  expect(await signerCli(admin, 'remove', old.fingerprint, '--yes')).toMatchObject({
    code: 6,
    stderr: expect.stringMatching(/cp-1[\s\S]*cp-2/),
  });

  await first.end();
  first = await fleet.controlPlane('cp-1', one);
  keys.push((await first.admin.createKey('acme', 'during')).value);
  await second.end();
  second = await fleet.controlPlane('cp-2', two);
  await expect
    .poll(() => signerCli(first.ready.admin, 'remove', old.fingerprint, '--yes'), { timeout: 30_000 })
    .toMatchObject({ code: 0 });

  const late = await fleet.forgeKey('acme', old.signer);
  keys.push((await first.admin.createKey('acme', 'by one')).value);
  keys.push((await second.admin.createKey('acme', 'by two')).value);
  await caughtUp(second.admin);
  for (const key of keys) expect(await statusWith(gateway.ready.api, key)).not.toBe(refusedKey);
  expect(await statusWith(gateway.ready.api, late)).toBe(refusedKey);
  const listed = await signerCli(second.ready.admin, 'list', '-o', 'json');
  expect(JSON.parse(listed.stdout).items).toMatchObject([
    { fingerprint: one.fingerprint, replicas: ['cp-1'] },
    { fingerprint: two.fingerprint, replicas: ['cp-2'] },
  ]);
  await second.end();
  await expect(fleet.controlPlane('cp-2', old)).rejects.toThrow(/is not the key of one of its signers/);

  // Starts another gateway, which reads the whole log from its first record.
  const fresh = await fleet.startGateway('gw-2', { flags: ['--trust-signer', old.publicFile] });
  expect(await statusWith(fresh.ready.api, late)).toBe(refusedKey);
  for (const key of keys) expect(await statusWith(fresh.ready.api, key)).not.toBe(refusedKey);
});

test('a replica whose signer was removed refuses commands at once, with the next step', async () => {
  const [one, two] = [fleet.key('one'), fleet.key('two')] as const;
  const first = await fleet.controlPlane('cp-1', one);
  expect(await signerCli(first.ready.admin, 'add', two.publicFile)).toMatchObject({ code: 0 });
  const second = await fleet.controlPlane('cp-2', two);
  const removed = await signerCli(second.ready.admin, 'remove', one.fingerprint, '--yes', '--force');
  expect(removed).toMatchObject({ code: 0 });
  await expect
    .poll(() => statusOf(first.admin), { timeout: 20_000 })
    .toMatchObject({ signers: fingerprints(two) });
  await expect(first.admin.apply(acme)).rejects.toThrow(/not among the signers/);
  await second.admin.apply(acme);
});

test('a gateway with a pin refuses an outsider’s log by name, and follows the right one once it exists', async () => {
  const key = fleet.key('own');
  const outsider = fleet.key('outsider');
  const pin = ['--trust-signer', key.signer.publicKey, '--when-stale', 'serve'];
  await fleet.append(known('log.created', { log: 'log-of-an-outsider' }));
  await fleet.append(known('organisation.set', { id: 'acme', name: 'A', tier: null, anchor: '2026-11-01' }));
  const forged = await fleet.forgeKey('acme');
  const trusting = await fleet.startGateway('gw-trusting', { flags: ['--when-stale', 'serve'] });
  expect(await statusWith(trusting.ready.api, forged)).not.toBe(refusedKey);

  const gateway = await fleet.startGateway('gw-1', { flags: pin });
  expect(await verbose(gateway.ready.metrics)).toMatch(/log-of-an-outsider is refused/);
  expect((await fetch(`${gateway.ready.metrics}/readyz`)).status).toBe(503);
  expect(await statusWith(gateway.ready.api, forged)).toBe(refusedKey);
  await expect(fleet.controlPlane('cp-1', key)).rejects.toThrow(/not signed/);

  renameSync(fleet.logFolder, join(fleet.dir, 'unsigned-log'));
  // An outsider creates a signed log and names our key among its signers.
  const both = [outsider.signer.publicKey, key.signer.publicKey];
  await fleet.append(known('log.created', { log: 'log-of-an-outsider', signers: both }), outsider.signer);
  const pinned = fleet.controlPlane('cp-pinned', key, ['--trust-signer', key.publicFile]);
  await expect(pinned).rejects.toThrow(/log-of-an-outsider is refused/);
  await expect
    .poll(() => verbose(gateway.ready.metrics), { timeout: 20_000 })
    .toContain(outsider.fingerprint);

  renameSync(fleet.logFolder, join(fleet.dir, 'signed-log'));
  await expect(fleet.controlPlane('cp-0', undefined, pin.slice(0, 2))).rejects.toThrow(/may create it/);
  const plane = await fleet.controlPlane('cp-2', key, pin.slice(0, 2));
  await plane.admin.apply(acme);
  const { value } = await plane.admin.createKey('acme', 'genuine');
  await expect.poll(() => statusWith(gateway.ready.api, value), { timeout: 30_000 }).not.toBe(refusedKey);
  expect(await statusWith(gateway.ready.api, forged)).toBe(refusedKey);
});

test('without --insecure-snapshots, a gateway fetches no snapshot over plain HTTP from another machine', async () => {
  const args = ['gateway', '--data', join(fleet.dir, 'gw'), '--port', '0', '--metrics-port', '0'];
  const remote = ['--control-plane', 'http://192.0.2.1:8081'];
  const refused = await fleet.cli([...args, ...remote]);
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/https[\s\S]*--insecure-snapshots/),
  });
  for (const pin of ['', 'no-such-file.pem']) {
    const refusal = await fleet.cli([...args, '--trust-signer', pin]);
    expect(refusal).toMatchObject({ code: 2, stderr: expect.stringContaining('--trust-signer') });
  }
});
