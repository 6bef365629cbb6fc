/**
 * Runs the commands of docs/backup.md for a lost log, in a fleet whose processes keep their folders. Afterwards keys, stacks
 * and tiers must be as in the backup, and usage must be counted once.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type GatewayProcess,
  model,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { binary } from '../support/processes.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const fleet = new ProcessFleet();
const { dir, logFolder } = fleet;
let plane: Plane;
let gateway: GatewayProcess;
let answered = 0;

beforeAll(async () => {
  plane = await fleet.startPlane('cp-1');
  gateway = await fleet.startGateway('gw-1');
  const node = await fleet.simNode('node', '--models', model, '--tokens-per-second', '0');
  await fleet.admin(plane).apply(smallFleet(node.ready.url));
}, 120_000);
afterAll(() => fleet.close());

/** Returns the commands under a heading of docs/backup.md. */
function commandsUnder(heading: string): string {
  const page = readFileSync(new URL('../../docs/backup.md', import.meta.url), 'utf8');
  const section = page.split(/^## /m).find((text) => text.startsWith(heading));
  const block = /^ *```sh\n(.*?)^ *```$/ms.exec(section ?? '')?.[1];
  if (block === undefined) throw new Error(`no commands under ${heading}`);
  return block;
}

async function bash(script: string, more: Record<string, string>): Promise<string> {
  const bin = join(dir, 'bin');
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, 'headgate'), `#!/bin/sh\nexec "${process.execPath}" "${binary}" "$@"\n`);
  chmodSync(join(bin, 'headgate'), 0o755);
  const path = `${bin}:${process.env['PATH']}`;
  const { stdout, stderr } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: dir,
    env: { ...process.env, ...fleet.env, ...more, PATH: path },
  });
  return stdout + stderr;
}

async function ask(key: string): Promise<number> {
  const status = await statusWith(gateway.ready.api, key);
  if (status === 200) answered++;
  return status;
}

async function countsAll(): Promise<boolean> {
  const usage = await fleet.admin(plane).call('GET', `/usage?organisation=${organisation}`);
  return Number(usage['requests']) === answered;
}

test('docs/backup: a lost log is restored from the backup, and processes without a state follow it', async () => {
  const admin = fleet.admin(plane);
  const kept = await admin.createKey(organisation, 'kept');
  const revoked = await admin.createKey(organisation, 'revoked');
  await admin.call('POST', `/keys/${revoked.id}/revoke`, {});
  await until(async () => (await ask(kept.value)) === 200, 60_000);
  await until(countsAll, 60_000);
  expect(await fleet.cli(['backup', join(dir, 'copy'), '--data', join(dir, 'cp-1')])).toMatchObject({
    code: 0,
  });
  const before = await admin.call('GET', '/status');
  const lost = await admin.createKey(organisation, 'after the backup');
  await until(async () => (await ask(lost.value)) === 200, 60_000);
  await gateway.end();
  await plane.end();

  const output = await bash(commandsUnder('Restore a lost log'), {
    BACKUP: join(dir, 'copy'),
    LOG_FOLDER: logFolder,
    NEW_FOLDER: join(dir, 'cp-2'),
    GATEWAY_FOLDER: join(dir, 'gw-1'),
    TRUST: '--allow-unsigned',
  });
  expect(output).toContain(`restored log ${before.log} to position ${before.position}`);

  plane = await fleet.startPlane('cp-2');
  gateway = await fleet.startGateway('gw-1');
  const after = await fleet.admin(plane).call('GET', '/status');
  expect([after.log, after.digests['api_key']]).toEqual([before.log, before.digests['api_key']]);
  await until(async () => (await ask(kept.value)) === 200, 60_000);
  expect([await ask(revoked.value), await ask(lost.value)]).toEqual([401, 401]);
  await until(countsAll, 60_000);
  const later = await fleet.admin(plane).createKey(organisation, 'later');
  await until(async () => (await ask(later.value)) === 200, 60_000);
});
