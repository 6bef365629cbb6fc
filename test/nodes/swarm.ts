/**
 * Many agents on two control planes. One control plane is killed together with some of its agents. All are real processes:
 * two replicas, one process with the agents that survive and one with the agents that die. Figures are read from the
 * surviving replica.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { metric, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { eventsFrom } from './node-states.ts';

const worker = new URL('../../dist/test/nodes/swarm-worker.js', import.meta.url).pathname.replace(
  '/dist/dist/',
  '/dist/',
);

export interface SwarmOptions {
  readonly agents: number;
  /** Number of agents that die together with their replica. */
  readonly doomed: number;
  /** Time for which all agents send only heartbeats, in seconds. */
  readonly quietSeconds: number;
}

export interface SwarmFigures {
  readonly agents: number;
  /** Time from the start of the agents until all nodes were up, in ms. */
  readonly attachedMs: number;
  readonly attachCommits: number;
  /** Number of nodes that each replica owned before the kill. */
  readonly owned: readonly [number, number];
  /** Number of commits while all agents sent only heartbeats. */
  readonly quietCommits: number;
  /** Time from the kill until all other agents reported to the surviving replica, in ms. */
  readonly reattachedMs: number;
  /** Time from the kill until all nodes of killed agents were down, in ms. */
  readonly downMs: number;
  readonly down: readonly string[];
  readonly doomed: readonly string[];
  /** Number of events after the kill, by kind, and of the commits that contain them. */
  readonly reported: {
    readonly joined: number;
    readonly down: number;
    readonly up: number;
    readonly commits: number;
  };
  /** Number of nodes that changed their owner more than once after the kill. */
  readonly joinedTwice: number;
  /** Share of a core that the surviving replica used while all agents sent it heartbeats. */
  readonly cpuShare: number;
  readonly rssBytes: number;
}

export async function swarm(options: SwarmOptions): Promise<SwarmFigures> {
  const fleet = new ProcessFleet();
  const workers: ChildProcess[] = [];
  try {
    return await run(fleet, workers, options);
  } finally {
    for (const one of workers) one.kill('SIGKILL');
    await fleet.close();
  }
}

async function run(
  fleet: ProcessFleet,
  workers: ChildProcess[],
  options: SwarmOptions,
): Promise<SwarmFigures> {
  const victim = await fleet.startPlane('control-plane-1');
  const survivor = await fleet.startPlane('control-plane-2');
  const nodes = Array.from({ length: options.agents }, (_, at) => `node-${at}`);
  const doomed = nodes.slice(0, options.doomed);
  const tokens = await register(survivor, nodes);
  const both = [victim, survivor].map(({ ready }) => ready.admin);
  const begin = await position(survivor);
  const startedMs = performance.now();
  const plan = (names: readonly string[]): { node: string; token: string }[] =>
    names.map((node) => ({ node, token: tokens.get(node) ?? '' }));
  const lasting = { controlPlanes: both, agents: plan(nodes.slice(options.doomed)) };
  const dying = { controlPlanes: both.slice(0, 1), agents: plan(doomed) };
  workers.push(
    ...(await Promise.all([startWorker(fleet, 'lasting', lasting), startWorker(fleet, 'dying', dying)])),
  );
  await until(async () => (await survivor.admin.nodes()).every(({ up }) => up), 120_000);
  const attachedMs = Math.round(performance.now() - startedMs);
  const before = await survivor.admin.nodes();
  const ownedBy = (name: string): number => before.filter(({ owner }) => owner === name).length;
  const quietFrom = await position(survivor);
  // Waits to see that heartbeats alone do not cause a commit.
  await new Promise((resolve) => setTimeout(resolve, options.quietSeconds * 1000));
  const killedAt = await position(survivor);

  const killedMs = performance.now();
  victim.child.kill('SIGKILL');
  workers[1]?.kill('SIGKILL');
  const since = (): number => Math.round(performance.now() - killedMs);
  let reattachedMs = Number.NaN;
  await until(async () => {
    const now = await survivor.admin.nodes();
    const reporting = now.filter(
      ({ owner, beatSeconds }) => owner === 'control-plane-2' && beatSeconds !== undefined,
    );
    if (Number.isNaN(reattachedMs) && reporting.length === nodes.length - doomed.length)
      reattachedMs = since();
    return !Number.isNaN(reattachedMs) && now.filter(({ up }) => !up).length >= doomed.length;
  }, 60_000);
  const downMs = since();
  // Waits some seconds, in which a node could wrongly go down or change its owner again.
  const usedBefore = await cpuSeconds(survivor);
  await new Promise((resolve) => setTimeout(resolve, options.quietSeconds * 1000));
  const used = (await cpuSeconds(survivor)) - usedBefore;
  const events = (await eventsFrom(survivor.admin, killedAt + 1)).filter(({ type }) =>
    type.startsWith('node.'),
  );
  const joined = events.filter(({ type }) => type === 'node.joined').map(({ data }) => data['id']);
  const health = events.filter(({ type }) => type === 'node.health_changed');
  return {
    agents: nodes.length,
    attachedMs,
    attachCommits: quietFrom - begin,
    owned: [ownedBy('control-plane-1'), ownedBy('control-plane-2')],
    quietCommits: killedAt - quietFrom,
    reattachedMs,
    downMs,
    down: (await survivor.admin.nodes()).filter(({ up }) => !up).map(({ id }) => id),
    doomed,
    reported: {
      joined: joined.length,
      down: health.filter(({ data }) => data['up'] === false).length,
      up: health.filter(({ data }) => data['up'] === true).length,
      commits: (await position(survivor)) - killedAt,
    },
    joinedTwice: joined.length - new Set(joined).size,
    cpuShare: Math.round((used / options.quietSeconds) * 1000) / 1000,
    rssBytes: await metric(survivor, 'process_resident_memory_bytes'),
  };
}

const position = ({ admin }: Plane): Promise<number> => admin.position();
const cpuSeconds = (replica: Plane): Promise<number> => metric(replica, 'process_cpu_seconds_total');

async function register({ admin }: Plane, nodes: readonly string[]): Promise<Map<string, string>> {
  await admin.apply({
    version: 1,
    models: [{ id: 'swarm-model', family: 'swarm', weight: 1 }],
    pool: {
      models: ['swarm-model'],
      nodes: nodes.map((id) => ({ id, url: 'http://127.0.0.1:9', dialect: 'vllm', agent: true })),
    },
  });
  const tokens = new Map<string, string>();
  for (const node of nodes) tokens.set(node, (await admin.createNodeToken(node)).value);
  return tokens;
}

async function startWorker(fleet: ProcessFleet, name: string, plan: object): Promise<ChildProcess> {
  const path = join(fleet.dir, `${name}.json`);
  writeFileSync(path, JSON.stringify(plan), { mode: 0o600 });
  const child = spawn(process.execPath, [worker, path], {
    env: { ...process.env, HEADGATE_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  return child;
}
