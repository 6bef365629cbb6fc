/**
 * A rolling upgrade of a running fleet under load, and the way back (`npm run upgrade-test`): two control planes and two
 * gateways of 0.1.0, replaced one after the other on their data folders. No request may fail, no gateway may diverge, no usage
 * may be lost. Exits 1 where a claim is wrong; the last line is one JSON object.
 */
import { mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { type SimNode, startSimNode } from '../../dev/simulator/sim-node.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { type Started, startProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { Load } from './load.ts';

const oldBinary = process.argv[2] ?? '';
const dir = mkdtempSync(join(tmpdir(), 'headgate-upgrade-'));
const token = 'operator-token-of-the-upgrade';
const env = {
  HEADGATE_LOG: `sqlite:${join(dir, 'log')}`,
  HEADGATE_OPERATOR_TOKEN: token,
  HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-the-upgrade',
};
type Kind = 'control-plane' | 'gateway';
type Process = Started<{ readonly admin: string; readonly api: string; readonly metrics: string }>;

const running = new Map<string, Process>();
const load = new Load();
const wrong: string[] = [];

function check(holds: boolean, claim: string): void {
  console.log(`${holds ? 'ok   ' : 'WRONG'} ${claim}`);
  if (!holds) wrong.push(claim);
}

async function start(kind: Kind, name: string, version: 'old' | 'new'): Promise<void> {
  const data = ['--data', join(dir, name), '--name', name, '--port', '0', '--metrics-port', '0'];
  const drain = kind === 'gateway' ? ['--drain-delay', '1', '--drain-timeout', '20'] : [];
  const started: Process = await startProcess({
    ...{ dir, name, args: [kind, ...data, ...drain], env },
    ...(version === 'old' && { binary: oldBinary }),
  });
  running.set(name, started);
  if (kind === 'gateway') load.add(name, started.ready);
}

/** As a rollout does it: SIGTERM, its end, the other version on the same folder, ready. */
async function replace(kind: Kind, name: string, version: 'old' | 'new', between = () => {}): Promise<void> {
  const before = running.get(name);
  await before?.end('SIGTERM');
  check(before?.child.exitCode === 0, `${name} ended cleanly`);
  load.remove(name);
  between();
  await start(kind, name, version);
  if (kind === 'gateway') await until(() => load.isReady(name), 120_000);
  console.log(`      ${name} runs the ${version} version`);
}

function admin(name: string): DevAdmin {
  return new DevAdmin(running.get(name)?.ready.admin ?? '', token);
}

async function usageRequests(plane: string): Promise<number> {
  return Number((await admin(plane).call('GET', '/usage?organisation=acme'))['requests']);
}

/** Every completed request is in the totals of both control planes, once. */
async function usageAgrees(when: string): Promise<void> {
  await load.pause();
  for (const plane of ['cp-1', 'cp-2']) {
    await until(async () => (await usageRequests(plane)) >= load.completed, 60_000).catch(() => undefined);
    const found = await usageRequests(plane);
    check(found === load.completed, `${when}: ${plane} has ${found} of ${load.completed} completed requests`);
  }
  load.resume();
}

async function statesAre(when: string, expected: string): Promise<void> {
  const states = async () =>
    (await admin('cp-1').call('GET', '/gateways')).items.map(({ state }) => state).join(' ');
  await until(async () => (await states()) === expected, 60_000).catch(() => undefined);
  const found = await states();
  check(found === expected, `${when}: the gateways are ${found}`);
}

async function fleetOf(node: SimNode): Promise<void> {
  for (const name of ['cp-1', 'cp-2']) await start('control-plane', name, 'old');
  await admin('cp-1').apply({
    version: 1,
    models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
    tiers: [{ id: 'Wide', models: '*' }],
    pool: { models: ['echo-small'], nodes: [{ id: 'pool-1', url: node.url, dialect: 'vllm' }] },
    organisations: [{ id: 'acme', name: 'Acme', tier: 'Wide' }],
  } as Parameters<DevAdmin['apply']>[0]);
  load.key = (await admin('cp-1').createKey('acme', 'k')).value;
  for (const name of ['gw-1', 'gw-2']) await start('gateway', name, 'old');
}

/** What 0.1.0 refuses is moved away; what it holds was shipped before. */
function setAside(name: string, files: RegExp): () => void {
  return () => {
    for (const file of readdirSync(join(dir, name)).filter((each) => files.test(each)))
      renameSync(join(dir, name, file), join(dir, name, `later-${file}`));
  };
}

/** docs/operate.md, Back to 0.1.0: the format that it reads has one table less. */
function usageOfFormat1(name: string): void {
  const db = openDatabase(join(dir, name, 'usage.db'), { durability: 'full' });
  db.exec('BEGIN; DROP TABLE named; PRAGMA user_version = 1; COMMIT');
  db.close();
}

async function run(): Promise<void> {
  const node = await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
  try {
    await fleetOf(node);
    for (const name of ['gw-1', 'gw-2']) await until(() => load.isReady(name), 60_000);
    load.start();
    await until(() => load.completed > 200, 60_000);
    await usageAgrees('0.1.0');
    for (const name of ['gw-1', 'gw-2']) await replace('gateway', name, 'new');
    await usageAgrees('gateways upgraded');
    for (const name of ['cp-1', 'cp-2']) await replace('control-plane', name, 'new');
    await statesAre('all upgraded', 'SYNCED SYNCED');
    const { digests } = await admin('cp-1').call('GET', '/status');
    const other = await admin('cp-2').call('GET', '/status');
    check(
      JSON.stringify(digests) === JSON.stringify(other.digests),
      'both control planes have the same rows',
    );
    const later = await admin('cp-2').createKey('acme', 'later');
    check(later.value !== '', 'commands are accepted');
    await usageAgrees('all upgraded');
    for (const name of ['gw-1', 'gw-2'])
      await replace('gateway', name, 'old', setAside(name, /^(?:outbox|counters|state)\.db/));
    await usageAgrees('gateways back on 0.1.0');
    for (const name of ['cp-1', 'cp-2'])
      await replace('control-plane', name, 'old', () => {
        setAside(name, /^state\.db/)();
        usageOfFormat1(name);
      });
    await usageAgrees('all back on 0.1.0');
    check(load.failures.length === 0, `no request of ${load.completed + load.failures.length} failed`);
  } finally {
    await load.stop();
    await Promise.all([...running.values()].map((one) => one.end('SIGKILL')));
    await node.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

await run();
console.log(JSON.stringify({ requests: load.completed, failures: load.failures.slice(0, 20), wrong }));
process.exitCode = wrong.length === 0 ? 0 : 1;
