/** Makes each check of `doctor` find a real fault in the machine, the log, the processes or the state. */
import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dayNamesIn } from '../../control-plane/usage/day-files.ts';
import { controlTopic } from '../../schemas/events/commit.ts';
import type { StoredEvent } from '../../schemas/events/events.ts';
import { type StatusReport, statusTopic } from '../../schemas/records/status.ts';
import { usageTopic } from '../../schemas/records/usage.ts';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { tableNames } from '../../shared/snapshot/tables.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import { type Check, checksIn, faultsIn } from '../support/checks.ts';
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
const planted = new URL('../support/planted-machine.mjs', import.meta.url).href;
const faulty = new URL('../support/fault-on-file.mjs', import.meta.url).href;
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

/** Returns the findings of `doctor`, each as `CODE level object`. */
const findings = async (of = plane): Promise<string[]> => faultsIn((await doctorOf(of, '-o', 'json')).out);

const found = (finding: string, of?: Plane) =>
  until(async () => (await findings(of)).includes(finding), waitMs);
const gone = (finding: string) => until(async () => !(await findings()).includes(finding), waitMs);

/** Appends a commit as another writer, such as a later version, would. */
async function append(events: readonly StoredEvent[]): Promise<void> {
  const log = await openLog(fleet.logUrl, { topic: controlTopic });
  const at = new Date().toISOString();
  await log.append(composeCommit({ head: await headOf(log), id: randomUUID(), at, by: 'operator', events }));
  await log.close();
}

test('without a gateway doctor warns that nobody is served, and with one a single line says that all is well', async () => {
  await found('HG4001 warn');
  gateway = await fleet.serve('gateway', 'gw');
  let run = await doctor();
  await until(async () => {
    run = await doctor();
    return run.code === 0 && run.out.split('\n').length === 2;
  }, waitMs);
  expect(run.out).toMatch(/^All \d+ checks passed, position \d+\n$/);
  expect((await doctor('--strict')).code).toBe(0);
});

test('HG2007: the history cannot be opened; killed processes are found later', async () => {
  // Puts a folder in place of the history file.
  mkdirSync(join(fleet.dir, 'cp-2', 'history.db'), { recursive: true });
  const second = await startPlane('cp-2');
  const isFound = found('HG2007 warn', second);
  const killed = [
    second,
    await fleet.serve('gateway', 'gw-serving', ['--when-stale', 'serve']),
    await fleet.serve('gateway', 'gw-fencing', ['--decisions', 'off']),
  ];
  await until(async () => {
    const { items } = await admin.call('GET', '/gateways');
    return ['gw-serving', 'gw-fencing'].every((name) => items.some((one) => one.name === name));
  }, waitMs);
  await isFound;
  for (const one of killed) await one.end('SIGKILL');
  const { value } = await admin.createKey('acme', 'used');
  await until(async () => (await statusWith(gateway.ready.api, value)) === 200, waitMs);
});

describe('doctor finds a fault in the state:', () => {
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
    [
      'HG7006 warn Wide/echo-small',
      async () => {
        await wide({ concurrency: 2 });
        await admin.call('PUT', '/models/echo-small', { family: 'echo', weight: 4 });
      },
      async () => {
        await admin.call('PUT', '/models/echo-small', { family: 'echo', weight: 1 });
        await wide({});
      },
    ],
  ];
  test.each(faults)('%s', async (finding, make, restore) => {
    await make();
    await found(finding);
    await restore();
    await gone(finding);
  });

  test('HG6006: a key expires within a week', async () => {
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

  test('HG6007: a former member still has a key', async () => {
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

describe('doctor finds a fault of a node or gateway:', () => {
  test('HG4007: two gateways have the same name', async () => {
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

  test('HG4002, HG4003 and HG3001: processes were killed, and an export lacks their decisions', async () => {
    await found('HG4002 fail gw-fencing');
    await found('HG4003 fail gw-serving');
    await found('HG3001 warn cp-2');
    const serving = checksIn((await doctor('-o', 'json')).out).find(({ code }) => code === 'HG4003');
    expect(serving?.text).toMatch(/^it has not reported for \d+ s; if it runs, it accepts keys/);
    expect(serving?.next).toMatch(/^if it has ended, start it; .*: headgate gateway forget gw-serving$/);
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

/** Sends the reports that a process of another build, on another log or with damaged rows would send. */
describe('doctor finds a fault that other processes report:', () => {
  const ghost = { v: 1, incarnation: randomUUID(), applied: 1, digest: 'd', freshSeconds: 1 } as const;
  let n = 0;
  async function report(more: Partial<StatusReport>): Promise<void> {
    const status = await openLog(fleet.logUrl, { topic: statusTopic });
    const own = (await admin.call('GET', '/status')) as {
      log: string;
      position: number;
      foldVersion: number;
    };
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
    ['HG4011 fail gw-ghost', { ...gatewayReport, foldVersion: 1, at: '2001-01-01T00:00:00Z' }],
    ['HG3006 warn cp-ghost', { ...planeReport, at: '2099-01-01T00:00:00Z' }],
    ['HG3002 fail cp-ghost', { ...planeReport, diverged: true }],
    ['HG3003 warn cp-ghost', { ...planeReport, foldVersion: 1 }],
    ['HG3004 fail cp-ghost', { ...planeReport, log: 'another-log' }],
    ['HG3005 fail cp-ghost', { ...planeReport, halted: 'an event of a later version' }],
  ] as const)('%s', async (finding, more) => {
    // Reports repeatedly, because reports that are read soon after the replica's start are not used to check clocks.
    await until(async () => {
      await report(more);
      return (await findings()).includes(finding);
    }, waitMs);
  });
});

describe('doctor finds a fault of the machine:', () => {
  interface PreOptions {
    /** A shell command that sets a limit on the process. */
    readonly limit?: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly program?: string;
  }
  const own = { HEADGATE_ADMIN: '', HEADGATE_TOKEN: '' };
  /** Runs the `doctor` command without a control plane. */
  const pre = (
    { limit = '', env = {}, program = binary }: PreOptions,
    ...more: string[]
  ): Promise<readonly Check[]> =>
    new Promise((resolve, reject) => {
      const line = `${limit} exec "$0" "$@"`;
      const argv = ['-c', line, process.execPath, program, 'doctor', '--pre', '-o', 'json', ...more];
      const child = spawn('sh', argv, { env: { ...process.env, ...own, ...env } });
      let out = '';
      child.stdout.on('data', (chunk: Buffer) => {
        out += chunk.toString();
      });
      child.on('error', reject);
      child.on('close', () => resolve(checksIn(out)));
    });

  const levelsIn = (checks: readonly Check[]) =>
    Object.fromEntries(checks.map(({ code, level }) => [code, level]));

  test('HG1003 to HG1006: a full disk, few open files, a readable secret, and no new files', async () => {
    const token = join(fleet.dir, 'token');
    writeFileSync(token, 'a-token-of-this-test', { mode: 0o644 });
    const checks = await pre({ limit: 'ulimit -n 1024;' }, '--data', '/proc', '--token-file', token);
    expect(levelsIn(checks)).toMatchObject({
      HG1001: 'ok',
      HG1002: 'ok',
      HG1003: 'fail',
      HG1004: 'warn',
      HG1005: 'fail',
      HG1006: 'fail',
    });
    expect(checks.find(({ code }) => code === 'HG1005')?.next).toBe(`chmod 600 ${token}`);
  });

  test('HG1008: another process has the port', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const checks = await pre({}, '--ports', String(port));
    expect(checks.find(({ code }) => code === 'HG1008')).toMatchObject({
      level: 'warn',
      object: String(port),
    });
    server.close();
    await once(server, 'close');
    expect(levelsIn(await pre({}, '--ports', String(port)))).toMatchObject({ HG1008: 'ok' });
  });

  // Gives the process another Node version and another time, because this machine has only one of each.
  test('HG1001 and HG1007: Node is too old, or no longer maintained', async () => {
    const NODE_OPTIONS = `--import=${planted}`;
    const old = await pre({ env: { NODE_OPTIONS, HEADGATE_TEST_NODE: '18.20.8' } });
    expect(levelsIn(old)).toMatchObject({ HG1001: 'fail', HG1007: 'ok' });
    const later = { HEADGATE_TEST_NODE: '20.18.1', HEADGATE_TEST_NOW: '2030-01-01T00:00:00Z' };
    expect(levelsIn(await pre({ env: { NODE_OPTIONS, ...later } }))).toMatchObject({
      HG1001: 'ok',
      HG1007: 'warn',
    });
  });

  test('HG1002: the installation lacks its native module', async () => {
    const root = join(import.meta.dirname, '../..');
    const copy = join(fleet.dir, 'installed');
    for (const part of readdirSync(join(root, 'dist')).filter((name) => !['bench', 'test'].includes(name)))
      cpSync(join(root, 'dist', part), join(copy, 'dist', part), { recursive: true });
    symlinkSync(join(root, 'package.json'), join(copy, 'package.json'));
    mkdirSync(join(copy, 'node_modules'));
    for (const name of readdirSync(join(root, 'node_modules')))
      if (!name.startsWith('better-sqlite3'))
        symlinkSync(join(root, 'node_modules', name), join(copy, 'node_modules', name));
    const checks = await pre({ program: join(copy, 'dist/cli/headgate.js') });
    expect(levelsIn(checks)).toMatchObject({ HG1001: 'ok', HG1002: 'fail' });
  });
});

describe('doctor finds a fault of nodes:', () => {
  // Uses force, because the gateway that only reported its status does not say which requests it has served.
  const stack = 'stk-load-me-1';
  test('HG5003 and HG5004: a node’s agent never came, or its engine cannot load an installed model', async () => {
    await admin.call('PUT', '/models/echo-large?force=true', { family: 'echo', weight: 1 });
    await admin.call('POST', '/stacks?force=true', { organisation: 'acme', id: stack });
    await admin.call('PUT', `/stacks/${stack}/models/echo-large?force=true`);
    const engine = await fleet.simNode('engine', '--models', 'echo-small', '--dialect', 'llamacpp');
    const { url } = engine.ready;
    const place = { kind: 'stack', id: stack };
    await admin.call('POST', '/nodes?force=true', {
      id: 'loader',
      place,
      url,
      dialect: 'llamacpp',
      agent: true,
    });
    expect(await findings()).toContain('HG5003 fail loader');
    const { value } = await admin.createNodeToken('loader');
    const argv = ['node-agent', '--node', 'loader', '--engine', url, '--control-plane', plane.ready.admin];
    await fleet.start('agent', [...argv, '--metrics-port', '0', '--load-models', 'all'], {
      HEADGATE_NODE_TOKEN: value,
    });
    await found('HG5004 fail loader');
    expect(await findings()).not.toContain('HG5003 fail loader');
  });

  // The test cannot cause real failures, because a node must stay up for a while between two of them. So it appends the
  // records of an earlier replica.
  test('HG5002: a node went down and up', async () => {
    const owner = 'cp-before';
    const health = (up: boolean): StoredEvent => {
      const data = { id: 'flapping', owner, generation: 1, up, models: ['echo-small'] };
      return { type: 'node.health_changed', v: 1, critical: false, data };
    };
    const place = { kind: 'pool' };
    await admin.call('POST', '/nodes?force=true', {
      id: 'flapping',
      place,
      url: node.url,
      dialect: 'vllm',
      agent: true,
    });
    const joined = { id: 'flapping', owner, generation: 1 };
    await append([{ type: 'node.joined', v: 1, critical: false, data: joined }]);
    for (let n = 0; n < 8; n++) await append([health(n % 2 === 0)]);
    await found('HG5002 warn flapping');
    await admin.call('DELETE', '/nodes/flapping?force=true');
    await gone('HG5002 warn flapping');
  });
});

describe('doctor finds a fault of listeners:', () => {
  test('HG8001, HG4012, HG4013, HG2008 and HG2003: certificates, a full disk and a wrong clock', async () => {
    const [cert, key] = [join(fleet.dir, 'ends.pem'), join(fleet.dir, 'ends.key')];
    const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
    const made = ['req', '-x509', '-newkey', 'ed25519', '-nodes', '-days', '5', ...subject];
    execFileSync('openssl', [...made, '-keyout', key, '-out', cert], { stdio: 'ignore' });
    const tls = ['--tls-cert', cert, '--tls-key', key];
    // Makes every disk appear to have half a gigabyte left.
    const disk = {
      NODE_OPTIONS: `--import=${planted} --import=${faulty}`,
      HEADGATE_TEST_DISK: String(2 ** 29),
      HEADGATE_TEST_FAULT: join(fleet.dir, 'fault'),
    };
    const [secure, proxy] = [
      await fleet.serve<Plane['ready']>('control-plane', 'cp-tls', tls, disk),
      await fleet.serve('gateway', 'gw-tls', tls),
    ];
    await found('HG4012 warn gw-tls');
    await found('HG4013 warn gw-tls');
    const env = { HEADGATE_ADMIN: secure.ready.admin, NODE_EXTRA_CA_CERTS: cert };
    const run = await fleet.cli(['doctor', '--only', 'log,console', '-o', 'json'], env);
    const levels = checksIn(run.stdout).map(({ code, level, object = '' }) =>
      `${code} ${level} ${object}`.trim(),
    );
    expect(levels, run.stderr).toEqual(expect.arrayContaining(['HG8001 warn admin', 'HG2008 fail']));
    // From now on, each freshness proof appears an hour old as soon as it is requested.
    writeFileSync(join(fleet.dir, 'fault.clock'), '');
    const stale = await fleet.cli(['doctor', '--only', 'log', '-o', 'json'], env);
    expect(checksIn(stale.stdout), stale.stderr).toContainEqual(
      expect.objectContaining({ code: 'HG2003', level: 'warn' }),
    );
    rmSync(join(fleet.dir, 'fault.clock'));
    await proxy.end('SIGTERM');
    await secure.end('SIGTERM');
  });
});

describe('doctor finds a fault of the log or of a control plane’s file:', () => {
  test('HG7001: usage rows were lost', async () => {
    const path = join(fleet.dir, 'cp', 'usage.db');
    await until(() => {
      const open = openDatabase(path, { durability: 'normal', readOnly: true });
      const rows = Number(open.prepare('SELECT count(*) FROM request').pluck().get());
      open.close();
      return rows > 0;
    }, waitMs);
    await plane.end('SIGTERM');
    // Changes the day files too, because some rows may already have been moved there.
    for (const each of [
      path,
      ...dayNamesIn(join(fleet.dir, 'cp')).map((name) => join(fleet.dir, 'cp', name)),
    ]) {
      const usage = openDatabase(each, { durability: 'normal' });
      usage.exec('DELETE FROM request WHERE id IN (SELECT max(id) FROM request)');
      usage.close();
    }
    // This loopback address is written in a form that the process does not recognise as local.
    plane = await fleet.serve<Plane['ready']>('control-plane', 'cp', ['--bind', '::ffff:127.0.0.1']);
    admin = fleet.admin(plane);
    await found('HG7001 fail acme');
    expect(await findings()).toContain('HG8002 warn admin');
  });

  test('HG7003: a usage row has a later version', async () => {
    const log = await openLog(fleet.logUrl, { topic: usageTopic, partition: 0 });
    const row = Buffer.from(JSON.stringify([{ v: 99, incarnation: randomUUID(), n: 1 }]));
    await log.append(row, new RecordMac(usageTopic, gatewayToken).of(row));
    await log.close();
    await found('HG7003 fail unread');
  });

  test('HG2004: something else writes to a topic', async () => {
    const log = await openLog(fleet.logUrl, { topic: controlTopic });
    for (let count = 0; count < 1100; count++) await log.append(Buffer.from(`not a commit ${count}`));
    await log.close();
    await found('HG2004 warn');
  });

  test('HG2006: a checkpoint’s rows differ', async () => {
    const { foldVersion } = (await admin.call('GET', '/status')) as { foldVersion: number };
    const digests = Object.fromEntries(tableNames.map((name) => [name, 'f'.repeat(32)]));
    await append([{ type: 'checkpoint', v: 1, critical: false, data: { foldVersion, digests } }]);
    await found('HG2006 fail');
  });

  test('HG2002 and HG4006: an event has a later version', async () => {
    await append([{ type: 'moon.landed', v: 1, critical: true, data: {} }]);
    // Runs `doctor` rarely, because each run waits ten seconds for processes to fold the log, which none does any more.
    let run = await doctor('-o', 'json');
    const areFound = () =>
      ['HG2002 fail', 'HG4006 fail gw'].every((each) => faultsIn(run.out).includes(each));
    await until(async () => {
      if (!areFound()) run = await doctor('-o', 'json');
      return areFound();
    }, waitMs);
    expect(run.code).toBe(1);
  });
});
