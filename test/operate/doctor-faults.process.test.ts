/** The checks of `doctor`, each made to find a fault that is really there: in the machine, the log, processes, or the state. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import { type SimNode, startSimNode } from '../../dev/simulator/sim-node.ts';
import { controlTopic } from '../../schemas/commit.ts';
import type { StoredEvent } from '../../schemas/events.ts';
import { type StatusReport, statusTopic } from '../../schemas/status.ts';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { headOf } from '../support/log-head.ts';
import {
  type GatewayProcess,
  gatewayToken,
  operatorToken,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { binary } from '../support/processes.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

const waitMs = 90_000;
const fleet = new ProcessFleet({ timeoutMs: 60_000 });
let node: SimNode;
let plane: Plane;
let gateway: GatewayProcess;
let admin: DevAdmin;

const startPlane = (name: string) => fleet.serve<Plane['ready']>('control-plane', name);

beforeAll(async () => {
  node = await startSimNode({ models: ['echo-small', 'echo-large'], tokensPerSecond: 0 });
  plane = await startPlane('cp');
  admin = fleet.admin(plane);
  await admin.apply(smallFleet(node.url));
}, 120_000);
afterAll(async () => {
  await fleet.close();
  await node.close();
});

const ofPlane = () => ({ HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken });
const doctor = (...more: string[]): Promise<CliRun> => doctorOf(plane, ...more);
const doctorOf = ({ ready }: Plane, ...more: string[]): Promise<CliRun> =>
  runCli(['doctor', '--skip', 'machine', ...more], {
    env: { HEADGATE_ADMIN: ready.admin, HEADGATE_TOKEN: operatorToken },
  });

interface Check {
  readonly code: string;
  readonly level: string;
  readonly object?: string;
  readonly next?: string;
}
const checksIn = (text: string): Check[] => (JSON.parse(text) as { readonly checks: Check[] }).checks;

/** What it found, as `CODE level object`. */
async function findings(of = plane): Promise<string[]> {
  const { out } = await doctorOf(of, '-o', 'json');
  return checksIn(out)
    .filter(({ level }) => level !== 'ok')
    .map(({ code, level, object }) => [code, level, object].filter(Boolean).join(' '));
}

const found = (finding: string, of?: Plane) =>
  until(async () => (await findings(of)).includes(finding), waitMs);
const gone = (finding: string) => until(async () => !(await findings()).includes(finding), waitMs);

/** A commit of another writer, such as a later version. */
async function append(events: readonly StoredEvent[]): Promise<void> {
  const log = await openLog(fleet.logUrl, { topic: controlTopic });
  const at = new Date().toISOString();
  await log.append(composeCommit({ head: await headOf(log), id: randomUUID(), at, by: 'operator', events }));
  await log.close();
}

test('without a gateway nobody is served; with one all is well, in one line', async () => {
  await found('HG4001 warn');
  gateway = await fleet.serve('gateway', 'gw');
  let run = await doctor();
  await until(async () => {
    run = await doctor();
    return run.code === 0 && run.out.split('\n').length === 2;
  }, waitMs);
  expect(run.out).toMatch(/^Everything checked is well: \d+ checks, position \d+\n$/);
  expect((await doctor('--strict')).code).toBe(0);
});

test('HG2007, a history that cannot be opened; processes that are killed are found later', async () => {
  // Where its history would be there is a folder.
  mkdirSync(join(fleet.dir, 'cp-2', 'history.db'), { recursive: true });
  const second = await startPlane('cp-2');
  const isFound = found('HG2007 warn', second);
  const killed = [
    second,
    await fleet.serve('gateway', 'gw-serving', ['--when-stale', 'serve']),
    await fleet.serve('gateway', 'gw-fencing', ['--decisions', 'off']),
  ];
  await until(async () => {
    const { items } = await admin.get('/gateways');
    return ['gw-serving', 'gw-fencing'].every((name) => items.some((one) => one.name === name));
  }, waitMs);
  await isFound;
  for (const one of killed) await one.end('SIGKILL');
  const { value } = await admin.createKey('acme', 'used');
  await until(async () => (await statusWith(gateway.ready.api, value)) === 200, waitMs);
});

describe('the state is at fault:', () => {
  const wide = (more: object) => admin.call('PUT', '/tiers/Wide', { models: '*', ...more });
  const faults: readonly (readonly [string, () => Promise<unknown>, () => Promise<unknown>])[] = [
    [
      'HG6002 warn pool-1/echo-large',
      () => admin.call('PUT', '/models/echo-large', { family: 'echo', weight: 1 }),
      () => admin.call('DELETE', '/models/echo-large'),
    ],
    ['HG6003 warn echo-small', () => wide({ models: [] }), () => wide({})],
    ['HG6004 warn Wide', () => wide({ models: [] }), () => wide({})],
    [
      'HG6005 warn acme',
      async () => {
        await admin.createKey('acme', 'one');
        await admin.call('PATCH', '/organisations/acme', { tier: null });
      },
      () => admin.call('PATCH', '/organisations/acme', { tier: 'Wide' }),
    ],
    [
      'HG6008 warn Odd',
      () =>
        append([{ type: 'tier.set', v: 1, critical: true, data: { id: 'Odd', rank: 90, models: ['gone'] } }]),
      () => admin.call('DELETE', '/tiers/Odd'),
    ],
    [
      'HG7002 warn Wide',
      () => admin.call('POST', '/organisations', { id: 'elm', name: 'Elm', tier: 'Wide' }),
      () => admin.call('PATCH', '/organisations/elm', { tier: null }),
    ],
  ];
  test.each(faults)('%s', async (finding, make, restore) => {
    await make();
    await found(finding);
    await restore();
    await gone(finding);
  });

  test('HG6006, a key that expires within a week', async () => {
    const expiresAt = new Date(Date.now() + 2 * 86_400_000).toISOString();
    const data = {
      id: 'key-soon',
      organisation: 'acme',
      name: 'k',
      hash: 'a'.repeat(64),
      expires: '30d',
      expiresAt,
    };
    await append([{ type: 'key.created', v: 1, critical: true, data }]);
    await found('HG6006 warn key-soon');
    await admin.call('POST', '/keys/key-soon/revoke');
    await gone('HG6006 warn key-soon');
  });

  test('HG6007, a key of a former member', async () => {
    await admin.call('PUT', '/organisations/acme/members/bob', { role: 'admin' });
    const env = { HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken };
    const argv = ['key', 'create', '--org', 'acme', '--name', 'k', '-o', 'json'];
    const byBob = await runCli([...argv, '--expires', 'never', '--as', 'bob'], { env });
    const own = JSON.parse(byBob.out) as { id: string };
    await admin.call('DELETE', '/organisations/acme/members/bob');
    expect(await findings()).toContain(`HG6007 warn ${own.id}`);
    await admin.call('POST', `/keys/${own.id}/revoke`);
    await gone(`HG6007 warn ${own.id}`);
  });
});

describe('a node or a gateway is at fault:', () => {
  test('HG4007, two gateways of one name', async () => {
    const data = [
      '--data',
      join(fleet.dir, 'gw-second'),
      '--name',
      'gw',
      '--port',
      '0',
      '--metrics-port',
      '0',
    ];
    const second = await fleet.start<GatewayProcess['ready']>('gw-second', ['gateway', ...data]);
    await found('HG4007 fail gw');
    await second.end('SIGTERM');
  });

  test('HG4002, HG4003 and HG3001, processes that were killed; their decisions are missing in an export', async () => {
    await found('HG4002 fail gw-fencing');
    await found('HG4003 fail gw-serving');
    await found('HG3001 warn cp-2');
    expect((await doctor()).code).toBe(1);
    const argv = ['decisions', 'export', '--since', '1h'];
    const run = await runCli(argv, { env: ofPlane() });
    expect(run.code).toBe(5);
    expect(run.err).toMatch(/not all gateways answered: .*gw-fencing/);
    expect(run.err).toContain('gw-serving');
    expect(
      run.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).gateway),
    ).toContain('gw');
    const whole = await runCli([...argv, '--gateway', 'gw'], { env: ofPlane() });
    expect(whole.code).toBe(0);
  });
});

/** As a process of another build, of another log or with damaged rows reports. */
describe('what other processes report is at fault:', () => {
  const ghost = { v: 1, incarnation: randomUUID(), applied: 1, digest: 'd', freshSeconds: 1 } as const;
  let n = 0;
  async function report(more: Partial<StatusReport>): Promise<void> {
    const status = await openLog(fleet.logUrl, { topic: statusTopic });
    const own = (await admin.get('/status')) as { log: string; position: number; foldVersion: number };
    const { log, foldVersion, position } = own;
    const body = {
      ...ghost,
      n: ++n,
      at: new Date().toISOString(),
      log,
      foldVersion,
      applied: position,
      ...more,
    };
    const value = Buffer.from(JSON.stringify(body));
    await status.append(value, new StatusMac(gatewayToken).of(value));
    await status.close();
  }
  const gatewayReport = { kind: 'gateway', name: 'gw-ghost', stalePolicy: 'fence' } as const;
  const planeReport = { kind: 'control-plane', name: 'cp-ghost', incarnation: randomUUID() } as const;
  test.each([
    ['HG4005 fail gw-ghost', { ...gatewayReport, diverged: true }],
    ['HG4006 fail gw-ghost', { ...gatewayReport, halted: 'no signature of a signer that is trusted' }],
    ['HG4008 warn gw-ghost', { ...gatewayReport, foldVersion: 1 }],
    ['HG4004 warn gw-ghost', { ...gatewayReport, foldVersion: 1, applied: 1 }],
    ['HG4009 warn gw-ghost', { ...gatewayReport, foldVersion: 1, freshSeconds: 30 }],
    ['HG4011 warn gw-ghost', { ...gatewayReport, foldVersion: 1, at: '2001-01-01T00:00:00Z' }],
    ['HG3006 warn cp-ghost', { ...planeReport, at: '2099-01-01T00:00:00Z' }],
    ['HG3002 fail cp-ghost', { ...planeReport, diverged: true }],
    ['HG3003 warn cp-ghost', { ...planeReport, foldVersion: 1 }],
    ['HG3004 fail cp-ghost', { ...planeReport, log: 'another-log' }],
    ['HG3005 fail cp-ghost', { ...planeReport, halted: 'an event of a later version' }],
  ] as const)('%s', async (finding, more) => {
    // Again and again: what is read soon after the start of the replica says nothing of clocks.
    await until(async () => {
      await report(more);
      return (await findings()).includes(finding);
    }, waitMs);
  });
});

describe('the machine is at fault:', () => {
  /** The command itself, under a limit of the shell. */
  const pre = (limit: string, ...more: string[]): Promise<Check[]> =>
    new Promise((resolve, reject) => {
      const line = `${limit} exec "$0" "$@"`;
      const argv = ['-c', line, process.execPath, binary, 'doctor', '--pre', '-o', 'json', ...more];
      const child = spawn('sh', argv, { env: { ...process.env, HEADGATE_ADMIN: '', HEADGATE_TOKEN: '' } });
      let out = '';
      child.stdout.on('data', (chunk: Buffer) => {
        out += chunk.toString();
      });
      child.on('error', reject);
      child.on('close', () => resolve(checksIn(out)));
    });

  test('HG1003, HG1004 and HG1005: no room on the disk, few open files, a secret that others can read', async () => {
    const token = join(fleet.dir, 'token');
    writeFileSync(token, 'a-token-of-this-test', { mode: 0o644 });
    const checks = await pre('ulimit -n 1024;', '--data', '/proc', '--token-file', token);
    const levels = Object.fromEntries(checks.map(({ code, level }) => [code, level]));
    expect(levels).toMatchObject({
      HG1001: 'ok',
      HG1002: 'ok',
      HG1003: 'fail',
      HG1004: 'warn',
      HG1005: 'fail',
    });
    expect(checks.find(({ code }) => code === 'HG1005')?.next).toBe(`chmod 600 ${token}`);
  });
});

describe('the log or a file of a control plane is at fault:', () => {
  test('HG7001, rows of usage that were lost', async () => {
    const path = join(fleet.dir, 'cp', 'usage.db');
    await until(() => {
      const open = openDatabase(path, { durability: 'normal', readOnly: true });
      const rows = Number(open.prepare('SELECT count(*) FROM request').pluck().get());
      open.close();
      return rows > 0;
    }, waitMs);
    await plane.end('SIGTERM');
    const usage = openDatabase(path, { durability: 'normal' });
    expect(
      usage.prepare('DELETE FROM request WHERE id IN (SELECT id FROM request LIMIT 1)').run().changes,
    ).toBe(1);
    usage.close();
    plane = await startPlane('cp');
    admin = fleet.admin(plane);
    await found('HG7001 fail acme');
  });

  test('HG2004, a topic that something else writes to', async () => {
    const log = await openLog(fleet.logUrl, { topic: controlTopic });
    for (let count = 0; count < 1100; count++) await log.append(Buffer.from(`not a commit ${count}`));
    await log.close();
    await found('HG2004 warn');
  });

  test('HG2002 and HG4006, an event of a later version', async () => {
    await append([{ type: 'moon.landed', v: 1, critical: true, data: {} }]);
    await found('HG2002 fail');
    await found('HG4006 fail gw');
    expect((await doctor()).code).toBe(1);
  });
});
