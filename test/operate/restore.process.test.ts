/**
 * The way back from a lost log, as docs/operate.md describes it: the commands of that page, next to a gateway that
 * runs on. Keys, stacks and tiers are as they were, and nobody has to restart the gateway.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type GatewayProcess,
  model,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { binary, type Started } from '../support/processes.ts';

const run = promisify(execFile);
const fleet = new ProcessFleet();
const { dir, logFolder } = fleet;
let node: Started<{ readonly url: string }>;
let controlPlane: Plane;
let gateway: GatewayProcess;

beforeAll(async () => {
  node = await fleet.simNode('node', '--models', model, '--tokens-per-second', '0');
  controlPlane = await fleet.startPlane('cp-1');
  gateway = await fleet.startGateway('gw-1', { flags: ['--when-stale', 'serve'] });
});
afterAll(() => fleet.close());

/** The commands under a heading of the operating guide. */
function commandsUnder(heading: string): string {
  const page = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');
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

const ask = (key: string): Promise<number> => statusWith(gateway.ready.api, key);

test('docs/operate: a lost log is restored from a snapshot; keys, stacks and tiers are as they were, and the gateway follows by itself', async () => {
  const admin = fleet.admin(controlPlane);
  await admin.apply({
    ...smallFleet(node.ready.url),
    tiers: [{ id: 'Platinum', requestsPerMinute: 6000, models: '*' }],
    organisations: [
      {
        id: 'acme',
        name: 'Acme',
        tier: 'Platinum',
        members: [{ person: 'ana', role: 'owner' }],
        stacks: [{ id: 'stk-amber-otter-9k2f', surface: 'anthropic', models: ['echo-small'] }],
      },
    ],
  });
  const kept = await admin.createKey('acme', 'kept');
  const revoked = await admin.createKey('acme', 'revoked');
  await admin.call('POST', `/keys/${revoked.id}/revoke`, {});
  const keys = await admin.call('GET', '/keys');
  const before = await admin.call('GET', '/status');
  await expect.poll(() => ask(kept.value), { timeout: 30_000 }).toBe(200);
  await controlPlane.end();

  const output = await bash(commandsUnder('Create a new log from a snapshot'), {
    STATE: join(dir, 'cp-1', 'state.db'),
    LOG_FOLDER: logFolder,
  });
  expect(output).toContain(`contains the state of log ${before.log} at position`);
  expect(output).toContain('nothing was written');
  expect(output).toMatch(/restored as log log-\S+ at position \d+/);
  expect(await ask(kept.value)).toBe(200);

  controlPlane = await fleet.startPlane('cp-1');
  const again = fleet.admin(controlPlane);
  const after = await again.call('GET', '/status');
  expect(after.log).not.toBe(before.log);
  const same = ['tier', 'tier_model', 'model', 'organisation', 'member', 'api_key', 'stack', 'stack_model'];
  for (const table of same) expect(after.digests[table], table).toBe(before.digests[table]);
  expect((await again.call('GET', '/keys')).items).toEqual((keys as { items: object }).items);

  const state = async () => {
    const { items } = await again.call('GET', '/gateways');
    return items.find(({ name }) => name === 'gw-1')?.state;
  };
  await expect.poll(state, { timeout: 60_000 }).toBe('SYNCED');
  await expect.poll(() => ask(kept.value), { timeout: 30_000 }).toBe(200);
  expect(await ask(revoked.value)).toBe(401);
  const later = await again.createKey('acme', 'later');
  await expect.poll(() => ask(later.value), { timeout: 30_000 }).toBe(200);
});

test('a restore refuses a log that is not empty, a file that is no state, and a call without --yes or --new-log', async () => {
  const state = join(dir, 'gw-1', 'state.db');
  const refused = (words: string) => bash(`headgate snapshot restore ${words}`, {}).catch((error) => error);
  expect(await refused(`${state} --new-log --yes`)).toMatchObject({
    code: 6,
    stderr: expect.stringMatching(/is not empty[\s\S]*contains log log-/),
  });
  expect(await refused(`${state} --yes`)).toMatchObject({ code: 2 });
  expect(await refused(`${state} --new-log`)).toMatchObject({ code: 2 });
  writeFileSync(join(dir, 'junk.db'), 'junk');
  expect(await refused('junk.db --new-log --yes')).toMatchObject({ code: 2 });
});
