/**
 * Tests the rolling upgrade of a running fleet under load, and the way back (`npm run upgrade-test`). Two control planes and
 * two gateways of the previous version are replaced one after the other on their data folders, while a staged change is open.
 * No request may fail, no gateway may diverge or be reported as diverging, and no usage may be lost. Exits with 1 if a check
 * fails. The last line of output is a JSON object.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import { statusWith } from '../support/process-fleet.ts';
import { type Launch, startProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { Digests } from './digests.ts';
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
type Process = Launch<{ readonly admin: string; readonly api: string; readonly metrics: string }>;

/** More commits than there are between two checkpoints, so that each version writes a checkpoint that the other reads. */
const checkpoint = { commits: 1008 };
/** The load asks for the first model. A change removes the second one from the clients' plan. */
const models = ['echo-small', 'echo-large'];
const running = new Map<string, Process>();
const load = new Load();
const digests = new Digests(
  token,
  () => ofKind('control-plane'),
  () => ofKind('gateway'),
);
const wrong: string[] = [];

function check(holds: boolean, claim: string): void {
  console.log(`${holds ? 'ok   ' : 'WRONG'} ${claim}`);
  if (!holds) wrong.push(claim);
}

function ofKind(kind: Kind): Process[] {
  const prefix = kind === 'gateway' ? 'gw-' : 'cp-';
  return [...running].filter(([name]) => name.startsWith(prefix)).map(([, process]) => process);
}

/** Checks the digests of one phase: no process may report a difference, and equal builds at equal positions must agree. */
async function digestsAgree(
  when: string,
  plane: string,
  { comparable = true, commits = 8 }: { readonly comparable?: boolean; readonly commits?: number } = {},
): Promise<void> {
  await commitMany(plane, commits);
  if (comparable) await digests.compare().catch(() => undefined);
  await noneFailed(when, plane);
  const { polls, compared, found } = digests.take();
  check(
    found.length === 0 && polls > 0 && (!comparable || compared > 0),
    `${when}: no divergence in ${polls} looks at every process, ${compared} digests compared ${found.slice(0, 3).join(' · ')}`,
  );
}

let failedBefore = 0;
/** Checks that no request has failed since the last check. On failure, prints the last error and the state of the nodes. */
async function noneFailed(when: string, plane: string): Promise<void> {
  const failed = load.failures.length - failedBefore;
  failedBefore = load.failures.length;
  check(
    failed === 0,
    `${when}: no request failed ${failed > 0 ? `(${failed}: ${load.failures.at(-1)})` : ''}`,
  );
  if (failed === 0) return;
  const { items } = await admin(plane).call('GET', '/nodes');
  console.log(`      ${JSON.stringify(items)}`);
}

async function commitMany(plane: string, commits: number): Promise<void> {
  const keysAtOnce = 4;
  for (let n = 0; n < commits; n += keysAtOnce)
    await Promise.all(
      Array.from({ length: keysAtOnce }, (_, more) => admin(plane).createKey('acme', `k-${n + more}`)),
    );
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

/**
 * Replaces a process as a rollout does: sends SIGTERM, waits until it has ended, and starts the other version on the same
 * folder.
 */
async function replace(kind: Kind, name: string, version: 'old' | 'new'): Promise<void> {
  const before = running.get(name);
  running.delete(name);
  await before?.end('SIGTERM');
  check(before?.child.exitCode === 0, `${name} ended cleanly`);
  load.remove(name);
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

/** Checks that both control planes count every completed request exactly once. */
async function usageAgrees(when: string): Promise<void> {
  await load.pause();
  for (const plane of ['cp-1', 'cp-2']) {
    await until(async () => (await usageRequests(plane)) >= load.completed, 60_000).catch(() => undefined);
    const found = await usageRequests(plane);
    check(found === load.completed, `${when}: ${plane} has ${found} of ${load.completed} completed requests`);
  }
  load.resume();
}

/** Checks that completions count once against the allowance, whichever version of the gateway served them. */
async function limitsAgree(when: string): Promise<void> {
  await load.pause();
  for (const plane of ['cp-1', 'cp-2']) {
    const completed = Number((await admin(plane).call('GET', '/usage?organisation=acme'))['totalTokens']);
    const used = async () => (await admin(plane).call('GET', '/organisations/acme/limits')).tokens.used;
    await until(async () => (await used()) === completed, 60_000).catch(() => undefined);
    const found = await used();
    check(
      found === completed && found > 0,
      `${when}: ${plane} counts ${found} of ${completed} completed tokens`,
    );
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
    models: models.map((id) => ({ id, family: 'echo', weight: 1 })),
    tiers: [{ id: 'Wide', models }],
    pool: { models, nodes: [{ id: 'pool-1', url: node.url, dialect: 'vllm' }] },
    organisations: [{ id: 'acme', name: 'Acme', tier: 'Wide' }],
  } as Parameters<DevAdmin['apply']>[0]);
  load.key = (await admin('cp-1').createKey('acme', 'k')).value;
  for (const name of ['gw-1', 'gw-2']) await start('gateway', name, 'old');
}

/** Checks each gateway's answer to a request for the model that the change removes from the plan. */
async function answersAre(when: string, wanted: Readonly<Record<string, number>>): Promise<void> {
  const ask = async (name: string): Promise<number> => {
    const status = await statusWith(running.get(name)?.ready.api ?? '', load.key, { model: models[1] });
    if (status === 200) load.completed++;
    return status;
  };
  const found = async () =>
    Object.fromEntries(await Promise.all(Object.keys(wanted).map(async (name) => [name, await ask(name)])));
  const expected = JSON.stringify(wanted);
  await until(async () => JSON.stringify(await found()) === expected, 20_000).catch(() => undefined);
  const last = JSON.stringify(await found());
  check(last === expected, `${when}: the gateways answer ${last}, wanted ${expected}`);
}

/** Id of the change that is staged on a new control plane. Its first wave is a gateway of the new version. */
let change = '';
async function stageChange(): Promise<void> {
  await statesAre('one control plane upgraded', 'SYNCED SYNCED');
  const query = 'stage=true&waves=gw-1,all&hold=1h&watch=least=1000000';
  const staged = await admin('cp-1').call('PUT', `/tiers/Wide?${query}`, { models: models.slice(0, 1) });
  change = String(staged['id']);
  await answersAre('a change is open', { 'gw-1': 403, 'gw-2': 200 });
  await plansAgree('a change is open');
}

const advanceChange = () => admin('cp-2').call('POST', `/staged-changes/${change}/advance`);

async function completeChange(): Promise<void> {
  await answersAre('a change is open, and its gateway back', { 'gw-1': 403, 'gw-2': 200 });
  await advanceChange();
  await answersAre('the change is advanced', { 'gw-1': 403, 'gw-2': 403 });
  await advanceChange();
  await answersAre('the change is completed', { 'gw-1': 403, 'gw-2': 403 });
}

/** Checks that both control planes have the same plans at one position of the log. */
async function plansAgree(when: string): Promise<void> {
  const plans = async () =>
    Promise.all(
      ['cp-1', 'cp-2'].map(async (name) => {
        const { items } = await admin(name).call('GET', '/tiers');
        return JSON.stringify(items.map(({ id, models: of }) => [id, of]));
      }),
    );
  await until(async () => new Set(await plans()).size === 1, 20_000).catch(() => undefined);
  const [one, other] = await plans();
  check(one === other, `${when}: the control planes have the plans ${one} and ${other}`);
}

async function run(): Promise<void> {
  const node = await startSimNode({ models, tokensPerSecond: 0 });
  try {
    await fleetOf(node);
    for (const name of ['gw-1', 'gw-2']) await until(() => load.isReady(name), 60_000);
    load.start();
    digests.start();
    await until(() => load.completed > 200, 60_000);
    await usageAgrees('before');
    await digestsAgree('before', 'cp-1');
    await replace('gateway', 'gw-1', 'new');
    await digestsAgree('one gateway upgraded', 'cp-1', checkpoint);
    await replace('gateway', 'gw-2', 'new');
    await usageAgrees('gateways upgraded');
    // Gateways cannot be compared with control planes if the new version has raised the fold version.
    await digestsAgree('gateways upgraded', 'cp-1', { comparable: false });
    await replace('control-plane', 'cp-1', 'new');
    await stageChange();
    await digestsAgree('one control plane upgraded', 'cp-2', checkpoint);
    await replace('control-plane', 'cp-2', 'new');
    await statesAre('all upgraded', 'SYNCED SYNCED');
    await digestsAgree('all upgraded', 'cp-2', checkpoint);
    await usageAgrees('all upgraded');
    await limitsAgree('all upgraded');
    await replace('gateway', 'gw-1', 'old');
    await completeChange();
    await usageAgrees('one gateway back');
    await limitsAgree('one gateway back');
    await digestsAgree('one gateway back', 'cp-1', checkpoint);
    await replace('gateway', 'gw-2', 'old');
    await usageAgrees('gateways back');
    await replace('control-plane', 'cp-1', 'old');
    await digestsAgree('one control plane back', 'cp-1', checkpoint);
    await plansAgree('one control plane back');
    await replace('control-plane', 'cp-2', 'old');
    await usageAgrees('all back');
    await limitsAgree('all back');
    await digestsAgree('all back', 'cp-2');
    await answersAre('all back', { 'gw-1': 403, 'gw-2': 403 });
    check(load.failures.length === 0, `no request of ${load.completed + load.failures.length} failed`);
  } finally {
    await Promise.all([load.stop(), digests.stop()]);
    await Promise.all([...running.values()].map((one) => one.end('SIGKILL')));
    await node.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

await run();
console.log(JSON.stringify({ requests: load.completed, failures: load.failures.slice(0, 20), wrong }));
process.exitCode = wrong.length === 0 ? 0 : 1;
