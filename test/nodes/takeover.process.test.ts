// Tests that a node always has one live owner: when the owner ends, another replica takes the node over without interruption.
// Uses two replicas, one probed node and one node with an agent. The owner receives SIGTERM or is killed.
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { eventsFrom, listedNode } from './node-states.ts';

const fleets: ProcessFleet[] = [];
afterAll(async () => {
  await Promise.all(fleets.map((fleet) => fleet.close()));
});

interface Scene {
  readonly owner: Plane;
  readonly other: Plane;
  readonly from: number;
  killEngine(): Promise<void>;
}

/** The first replica owns both nodes, because the second one started after they were registered. */
async function scene(): Promise<Scene> {
  const fleet = new ProcessFleet();
  fleets.push(fleet);
  const owner = await fleet.startPlane('control-plane-1');
  const engine = await fleet.simNode('engine', '--models', 'echo-small');
  const url = engine.ready.url;
  await owner.admin.apply({
    version: 1,
    pool: {
      nodes: [
        { id: 'probed', url, dialect: 'vllm' },
        { id: 'with-agent', url, dialect: 'vllm', agent: true },
      ],
    },
  });
  const { value: token } = await owner.admin.createNodeToken('with-agent');
  const other = await fleet.startPlane('control-plane-2');
  const urls = [owner, other].map(({ ready }) => ready.admin);
  await fleet.startAgent({ node: 'with-agent', token, engine: url, planes: urls.slice(0, 1) });
  await until(async () => (await owner.admin.nodes()).every(({ up }) => up));
  await until(async () => (await other.admin.nodes()).every(({ up }) => up));
  return { owner, other, from: await owner.admin.position(), killEngine: () => engine.end('SIGKILL') };
}

const ownedBySecond = (replica: Plane, id: string) => async (): Promise<boolean> =>
  (await listedNode(replica.admin, id))?.owner === 'control-plane-2';

test.concurrent('a killed replica loses its probed node to the other replica, which notices when the node ends', async () => {
  const { owner, other, from, killEngine } = await scene();
  await owner.end('SIGKILL');
  await until(ownedBySecond(other, 'probed'));
  expect(await listedNode(other.admin, 'probed')).toMatchObject({ up: true, generation: 2 });
  // The agent knows no other replica. But the node still answers, so the other replica takes it over and probes it.
  await until(ownedBySecond(other, 'with-agent'));
  expect(await listedNode(other.admin, 'with-agent')).toMatchObject({ up: true, generation: 2 });
  await killEngine();
  await until(async () => (await other.admin.nodes()).every(({ up }) => up === false));
  expect(await listedNode(other.admin, 'with-agent')).toMatchObject({
    reason: 'no agent attached; connection refused',
  });
  const reported = (await eventsFrom(other.admin, from + 1)).filter(({ type }) => type.startsWith('node.'));
  expect(reported.map(({ type, data }) => `${type} ${String(data['id'])}`).sort()).toEqual([
    'node.health_changed probed',
    'node.health_changed with-agent',
    'node.joined probed',
    'node.joined with-agent',
  ]);
});

test.concurrent('a replica that receives SIGTERM hands its probed node over at once and takes nothing down', async () => {
  const { owner, other, from } = await scene();
  await owner.end('SIGTERM');
  await until(ownedBySecond(other, 'probed'), 5000);
  const reported = (await eventsFrom(other.admin, from + 1)).filter(
    ({ type }) => type === 'node.health_changed',
  );
  expect(reported.filter(({ data }) => data['id'] === 'probed')).toEqual([]);
});

test.concurrent('if most nodes fall silent with their agents at once they keep their state, unlike one of a few', async () => {
  const fleet = new ProcessFleet();
  fleets.push(fleet);
  const plane = await fleet.startPlane('control-plane-1');
  const { admin } = plane;
  const ids = ['a', 'b', 'c', 'd'];
  const engines = await Promise.all(ids.map((id) => fleet.simNode(`engine-${id}`, '--models', 'echo-small')));
  const nodes = ids.map(
    (id, at) => ({ id, url: engines[at]!.ready.url, dialect: 'vllm', agent: true }) as const,
  );
  await admin.apply({ version: 1, pool: { nodes } });
  const agents = await Promise.all(
    nodes.map(async ({ id, url }) => {
      const { value } = await admin.createNodeToken(id);
      return fleet.startAgent({ node: id, token: value, engine: url, planes: [plane.ready.admin] });
    }),
  );
  const down = async (): Promise<string[]> =>
    (await admin.nodes()).filter(({ up }) => up !== true).map(({ id }) => id);
  await until(async () => (await down()).length === 0);
  const from = await admin.position();
  const freeze = (signal: NodeJS.Signals, ...each: number[]): void => {
    for (const at of each) for (const { child } of [agents[at]!, engines[at]!]) child.kill(signal);
  };
  freeze('SIGSTOP', 0, 1, 2);
  await until(() => plane.stderr().includes('"nodes.most_silent"'));
  // Waits for longer than a second probe takes, to see that nothing happens.
  await pause(5000);
  expect((await eventsFrom(admin, from + 1)).filter(({ type }) => type.startsWith('node.'))).toEqual([]);
  // Once a second node reports again, the two silent nodes are no longer a majority.
  freeze('SIGCONT', 0);
  await until(async () => (await down()).length > 1);
  expect((await down()).sort()).toEqual(['b', 'c']);
});

test.concurrent('nodes that a restarted replica knows nothing about also count as silent before they are probed', async () => {
  const fleet = new ProcessFleet();
  fleets.push(fleet);
  const name = 'control-plane-1';
  const before = await fleet.startPlane(name);
  const { admin: url } = before.ready;
  const ids = ['a', 'b', 'c'];
  const engines = await Promise.all(ids.map((id) => fleet.simNode(`engine-${id}`, '--models', 'echo-small')));
  const nodes = ids.map(
    (id, at) => ({ id, url: engines[at]!.ready.url, dialect: 'vllm', agent: true }) as const,
  );
  await before.admin.apply({ version: 1, pool: { nodes } });
  const agents = await Promise.all(
    nodes.map(async ({ id, url: engine }) =>
      fleet.startAgent({
        node: id,
        token: (await before.admin.createNodeToken(id)).value,
        engine,
        planes: [url],
      }),
    ),
  );
  await until(async () => (await before.admin.nodes()).every(({ up }) => up));
  await before.end('SIGKILL');
  for (const { child } of [agents[0]!, agents[1]!, engines[0]!, engines[1]!]) child.kill('SIGSTOP');
  const after = await fleet.startPlane(name, { flags: ['--port', new URL(url).port] });
  const admin = fleet.admin(after);
  const from = await admin.position();
  await until(async () => (await listedNode(admin, 'c'))?.beatSeconds !== undefined);
  // The replica learns at once that this node's agent is gone, but waits because the agents of the other nodes may still
  // connect.
  engines[2]!.child.kill('SIGSTOP');
  await agents[2]!.end('SIGKILL');
  await until(() => after.stderr().includes('"nodes.most_silent"'));
  expect((await eventsFrom(admin, from + 1)).filter(({ type }) => type.startsWith('node.'))).toEqual([]);
});

test.concurrent('a replica suspended for four seconds takes nothing down for what it missed', async () => {
  const fleet = new ProcessFleet();
  fleets.push(fleet);
  const only = await fleet.startPlane('control-plane-1');
  const engine = await fleet.simNode('engine', '--models', 'echo-small');
  const url = engine.ready.url;
  await only.admin.apply({
    version: 1,
    pool: { nodes: [{ id: 'with-agent', url, dialect: 'vllm', agent: true }] },
  });
  const { value: token } = await only.admin.createNodeToken('with-agent');
  await fleet.startAgent({ node: 'with-agent', token, engine: url, planes: [only.ready.admin] });
  await until(async () => (await listedNode(only.admin, 'with-agent'))?.up === true);
  const from = await only.admin.position();
  only.child.kill('SIGSTOP');
  // Waits for longer than three heartbeats of the agent.
  await pause(4000);
  only.child.kill('SIGCONT');
  const reports = async (): Promise<boolean> =>
    ((await listedNode(only.admin, 'with-agent'))?.beatSeconds ?? 99) < 2;
  await until(reports);
  // Waits for longer than the five seconds that a node may be without an agent, to see that nothing happens.
  await pause(6000);
  expect(await reports()).toBe(true);
  expect((await eventsFrom(only.admin, from + 1)).filter(({ type }) => type.startsWith('node.'))).toEqual([]);
});
