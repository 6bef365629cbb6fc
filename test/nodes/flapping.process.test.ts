// Tests that an engine that goes down and up every second causes almost no commits, that an agent that does so causes none,
// and that no request fails meanwhile. Two nodes serve one model, and the engine or agent of one of them flaps while a client
// keeps sending requests. The engine stops only between two requests, because it would otherwise lose the current one.
// FLAP_SECONDS sets the duration.

import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NodeAgent } from '../../agent/agent.ts';
import { EngineWatch } from '../../agent/engine.ts';
import { type Plane, ProcessFleet, statusWith } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { eventsFrom, listedNode } from './node-states.ts';

const flapSeconds = Number(process.env['FLAP_SECONDS'] ?? 7);
const commitsMax = Math.max(2, Math.floor((flapSeconds / 60) * 6));
const fleet = new ProcessFleet();
const agents: NodeAgent[] = [];
let replica: Plane;
let gateway: Launch<{ api: string; metrics: string }>;
let key: string;

beforeAll(async () => {
  replica = await fleet.startPlane('control-plane-1');
  await replica.admin.apply({
    version: 1,
    tiers: [{ id: 'Platinum', models: '*' }],
    organisations: [{ id: 'acme', name: 'Acme', tier: 'Platinum' }],
  });
  ({ value: key } = await replica.admin.createKey('acme', 'test'));
  gateway = await fleet.startGateway('gateway-1', { flags: ['--control-plane', replica.ready.admin] });
});
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.stop()));
  await fleet.close();
});

interface Member {
  readonly node: string;
  readonly url: string;
  startAgent(): Promise<NodeAgent>;
}

/** Starts two pool nodes that serve the same model, each with an agent. */
async function pair(model: string): Promise<{ steady: Member; flapping: Member; agent: NodeAgent }> {
  const names = [`${model}-steady`, `${model}-flapping`];
  const urls = await Promise.all(
    names.map(async (name) => {
      const { ready } = await fleet.faultyNode(name, '--models', model, '--tokens-per-second', '0');
      return ready.url;
    }),
  );
  await replica.admin.apply({
    version: 1,
    models: [{ id: model, family: 'echo', weight: 1 }],
    pool: {
      models: [model],
      nodes: names.map((id, at) => ({ id, url: urls[at]!, dialect: 'vllm', agent: true })),
    },
  });
  const member = async (at: number): Promise<Member> => {
    const [node, url] = [names[at]!, urls[at]!];
    const { value: token } = await replica.admin.createNodeToken(node);
    const startAgent = async (): Promise<NodeAgent> => {
      const agent = new NodeAgent({
        ...{ controlPlanes: [replica.ready.admin], node, token, loadsModels: false },
        engine: new EngineWatch({ url }),
        logger: pino({ level: 'silent' }),
      });
      agents.push(agent);
      await agent.start();
      return agent;
    };
    return { node, url, startAgent };
  };
  const steady = await member(0);
  const flapping = await member(1);
  await steady.startAgent();
  const agent = await flapping.startAgent();
  for (const { node } of [steady, flapping])
    await until(async () => (await listedNode(replica.admin, node))?.up === true);
  await replica.admin.confirmed(await replica.admin.position(), 10);
  return { steady, flapping, agent };
}

const ask = (model: string): Promise<number> => statusWith(gateway.ready.api, key, { model });

/** Sends requests without a pause and calls `flip` every second, between two requests. */
async function askWhile(
  model: string,
  flip: (up: boolean) => Promise<void>,
): Promise<{ asked: number; failed: number }> {
  let [asked, failed, seconds] = [0, 0, 0];
  const begin = performance.now();
  while (seconds < flapSeconds) {
    if ((performance.now() - begin) / 1000 >= seconds) {
      await flip(seconds % 2 === 1);
      seconds++;
    }
    asked++;
    if ((await ask(model)) !== 200) failed++;
  }
  return { asked, failed };
}

async function commitsAbout(node: string, from: number): Promise<number> {
  const events = await eventsFrom(replica.admin, from + 1);
  return events.filter(({ type, data }) => type.startsWith('node.') && data['id'] === node).length;
}

test.concurrent('an engine that flaps each second is reported down once, costs no request, and returns when it is stable', async () => {
  const model = 'echo-engine';
  const { flapping } = await pair(model);
  const from = await replica.admin.position();
  const figures = await askWhile(model, async (up) => {
    if (up) return;
    const connections = { mode: 'refused', forMs: 1000 };
    await fetch(`${flapping.url}/sim/behaviour`, { method: 'PUT', body: JSON.stringify({ connections }) });
  });
  const commits = await commitsAbout(flapping.node, from);
  process.stdout.write(`${JSON.stringify({ flapping: 'engine', flapSeconds, commits, ...figures })}\n`);
  expect(figures.failed).toBe(0);
  expect(figures.asked).toBeGreaterThan(20);
  expect(commits).toBeGreaterThanOrEqual(1);
  expect(commits).toBeLessThanOrEqual(commitsMax);
  await until(async () => (await listedNode(replica.admin, flapping.node))?.up === true);
});

test.concurrent('an agent that flaps each second while its engine works costs no commit and no request', async () => {
  const model = 'echo-agent';
  const { flapping, agent } = await pair(model);
  const from = await replica.admin.position();
  let running: NodeAgent | undefined = agent;
  const figures = await askWhile(model, async (up) => {
    if (up) {
      running = await flapping.startAgent();
    } else {
      await running?.stop();
      running = undefined;
    }
  });
  const commits = await commitsAbout(flapping.node, from);
  process.stdout.write(`${JSON.stringify({ flapping: 'agent', flapSeconds, commits, ...figures })}\n`);
  expect(figures.failed).toBe(0);
  expect(commits).toBe(0);
  if (!running) await flapping.startAgent();
  await until(async () => (await listedNode(replica.admin, flapping.node))?.up === true);
});
