// Tests that every gateway learns of all failures and recoveries of an agent or its engine within the promised time. Ends
// real processes with signals, and asks gateways which models they list. The tests run concurrently, each with its own node,
// because a node that fails often must stay healthy for longer before it counts as up again.

import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { completion, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { Cable, eventsFrom, listedNode, lists } from './node-states.ts';

const fleet = new ProcessFleet();
let replica: Plane;
let gateways: readonly Launch<{ api: string; metrics: string }>[];

beforeAll(async () => {
  replica = await fleet.startPlane('control-plane-1');
  await replica.admin.apply({
    version: 1,
    tiers: [{ id: 'Platinum', models: '*' }],
    organisations: [{ id: 'acme', name: 'Acme', tier: 'Platinum' }],
  });
  const { admin } = replica.ready;
  gateways = await Promise.all([
    fleet.startGateway('gateway-1', { flags: ['--control-plane', admin] }),
    fleet.startGateway('gateway-2', { flags: ['--control-plane', admin] }),
  ]);
});
afterAll(() => fleet.close());

/** A pool node with its engine. It serves a model that no other node serves. */
class Place {
  readonly model: string;
  readonly node: string;
  engine!: Launch<{ url: string }>;
  token!: string;
  tokenId!: string;

  constructor(name: string) {
    this.model = `echo-${name}`;
    this.node = `pool-${name}`;
  }

  static async open(name: string, ...engine: string[]): Promise<Place> {
    const place = new Place(name);
    place.engine = await fleet.simNode(`engine-${name}`, '--models', place.model, ...engine);
    await replica.admin.apply({
      version: 1,
      models: [{ id: place.model, family: 'echo', weight: 1 }],
      pool: {
        models: [place.model],
        nodes: [{ id: place.node, url: place.engine.ready.url, dialect: 'vllm', agent: true }],
      },
    });
    ({ value: place.token, id: place.tokenId } = await replica.admin.createNodeToken(place.node));
    return place;
  }

  agent(controlPlane = replica.ready.admin): Promise<Launch<{ metrics: string }>> {
    return fleet.startAgent({
      node: this.node,
      token: this.token,
      engine: this.engine.ready.url,
      planes: [controlPlane],
    });
  }

  /** Restarts the engine at the same address. */
  async startEngine(): Promise<void> {
    const { port } = new URL(this.engine.ready.url);
    await fleet.start(`engine-of-${this.node}-again`, ['sim-node', '--port', port, '--models', this.model]);
  }

  /** Resolves once the replica has been without the agent for longer than it would keep an unresponsive node up. */
  async withoutAgent(): Promise<void> {
    await until(async () => (await this.now())?.beatSeconds === undefined);
    // Waits for longer than a probe takes, to see that nothing happens.
    await pause(3000);
  }

  /** Returns the node's events since `position` that report it up or down. */
  async transitions(position: number): Promise<unknown[]> {
    const events = await eventsFrom(replica.admin, position + 1);
    return events.filter(({ data }) => data['id'] === this.node).map(({ type, data }) => [type, data['up']]);
  }

  async now(): Promise<LiveNodeResource | undefined> {
    return listedNode(replica.admin, this.node);
  }

  /** Resolves once both gateways list the model, or once neither does. */
  async everywhere(listed: boolean): Promise<void> {
    await Promise.all(
      gateways.map(({ ready }) => until(async () => (await lists(ready.api, this.model)) === listed)),
    );
  }
}

test.concurrent('killing a machine and its agent takes its node down at once on both gateways, and it comes back', async () => {
  const place = await Place.open('killed');
  const agent = await place.agent();
  await place.everywhere(true);
  expect(await place.now()).toMatchObject({
    ...{ up: true, owner: 'control-plane-1', generation: 1, loaded: [place.model], inFlight: 0 },
  });
  const position = await replica.admin.position();
  // The agent is frozen first, so that the replica does not learn that the engine is gone until it loses the agent.
  agent.child.kill('SIGSTOP');
  await place.engine.end('SIGKILL');
  await agent.end('SIGKILL');
  await place.everywhere(false);
  // The reason shows that the closed socket was enough, because silence is noticed only after three heartbeats.
  expect(await place.now()).toMatchObject({ up: false, reason: 'its agent is gone; connection refused' });
  await place.startEngine();
  await place.agent();
  await place.everywhere(true);
  // The log contains one report that the node is down and one that it is up, but no heartbeats.
  expect(await place.transitions(position)).toEqual([
    ['node.health_changed', false],
    ['node.health_changed', true],
  ]);
});

test.concurrent('a hanging agent does not take down a working node, but the engine’s end does, and both come back', async () => {
  const place = await Place.open('still');
  const agent = await place.agent();
  await place.everywhere(true);
  const position = await replica.admin.position();
  agent.child.kill('SIGSTOP');
  await place.withoutAgent();
  expect(await place.transitions(position)).toEqual([]);
  await place.engine.end('SIGKILL');
  await place.everywhere(false);
  expect(await place.now()).toMatchObject({ reason: 'no heartbeat in time; connection refused' });
  await place.startEngine();
  agent.child.kill('SIGCONT');
  await place.everywhere(true);
});

test.concurrent('a node that hangs with its agent is down after three missed heartbeats and one probe', async () => {
  const place = await Place.open('frozen');
  const agent = await place.agent();
  await place.everywhere(true);
  for (const { child } of [agent, place.engine]) child.kill('SIGSTOP');
  await place.everywhere(false);
  expect(await place.now()).toMatchObject({ reason: 'no heartbeat in time; no answer in time' });
  for (const { child } of [place.engine, agent]) child.kill('SIGCONT');
  await place.everywhere(true);
});

test.concurrent('an agent whose connections are cut takes no node down, but revoking its token meanwhile does', async () => {
  const place = await Place.open('cut');
  const cable = await Cable.open(replica.ready.admin);
  await place.agent(cable.url);
  await place.everywhere(true);
  const position = await replica.admin.position();
  cable.cut();
  await place.withoutAgent();
  expect(await place.transitions(position)).toEqual([]);
  await replica.admin.call('POST', `/tokens/${place.tokenId}/revoke`);
  await place.everywhere(false);
  expect(await place.now()).toMatchObject({ reason: 'its token was revoked' });
});

test.concurrent('an agent that receives SIGTERM first takes its node out, and waits for the engine’s running requests', async () => {
  // At 8 tokens per second, 200 tokens take 25 s, which is longer than the longest wait for the gateways.
  const place = await Place.open('ended', '--tokens-per-second', '8');
  const agent = await place.agent();
  await place.everywhere(true);
  const key = await replica.admin.createKey('acme', 'test');
  await replica.admin.confirmed(await replica.admin.position(), 10);
  const answer = await completion(gateways[0]!.ready.api, key.value, {
    ...{ model: place.model, stream: true, max_tokens: 200 },
    messages: [{ role: 'user', content: 'say 100 words' }],
  });
  expect(answer.status).toBe(200);
  await until(async () => (await place.now())?.inFlight === 1);
  let streamed = false;
  const text = answer.text().then((whole) => {
    streamed = true;
    return whole;
  });
  const ended = agent.end('SIGTERM').then(() => streamed);
  await place.everywhere(false);
  expect(streamed).toBe(false);
  expect(await place.now()).toMatchObject({ reason: 'its agent was stopped' });
  expect(await text).toContain('[DONE]');
  expect(await ended).toBe(true);
  expect(agent.child.exitCode).toBe(0);
});

test.concurrent('a killed engine is down, and back when it runs again', async () => {
  const place = await Place.open('engine');
  await place.agent();
  await place.everywhere(true);
  await place.engine.end('SIGKILL');
  await place.everywhere(false);
  expect(await place.now()).toMatchObject({ up: false, reason: 'connection refused' });
  await place.startEngine();
  await place.everywhere(true);
});
