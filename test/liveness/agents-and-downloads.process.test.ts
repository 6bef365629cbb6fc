/**
 * Tests node agents and gateways whose control plane cannot continue. An agent that is turned away must return after growing
 * pauses. A gateway whose snapshot download is interrupted must start from the log instead.
 */
import { once } from 'node:events';
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import type { Plane } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { RevokingFleet } from '../support/revoking-fleet.ts';
import { endsInOrder, health, isFaulted } from './clients.ts';

let fleet: RevokingFleet;
let engine: SimNode | undefined;
const servers: { close(): unknown }[] = [];
beforeEach(() => {
  fleet = new RevokingFleet();
});
afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  await fleet.close();
  await engine?.close();
});

/** Forwards connections to a control plane and records when each of them began. */
async function counting(plane: Plane): Promise<{ url: string; beganMs: number[] }> {
  const { hostname, port } = new URL(plane.ready.admin);
  const beganMs: number[] = [];
  const server: Server = createServer((socket) => {
    beganMs.push(performance.now());
    const onward = connect(Number(port), hostname);
    socket.pipe(onward).pipe(socket);
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  servers.push(server);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, beganMs };
}

/** Starts an agent for a pool node, connected to these control plane addresses. */
async function agentOver(plane: Plane, ...urls: string[]): Promise<Launch<{ metrics: string }>> {
  engine = await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
  await plane.admin.apply({
    version: 1,
    models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
    tiers: [{ id: 'Pro', models: '*' }],
    pool: {
      models: ['echo-small'],
      nodes: [{ id: 'kept', url: engine.url, dialect: 'vllm', agent: true }],
    },
  });
  const { value } = await plane.admin.createNodeToken('kept');
  const agent = await fleet.startAgent({ node: 'kept', token: value, engine: engine.url, planes: urls });
  return agent;
}

const eventually = (claim: () => Promise<void> | void): Promise<void> =>
  vi.waitFor(claim, { timeout: 40_000, interval: 50 });

async function ownerOf(plane: Plane): Promise<string | undefined> {
  const { items } = await plane.admin.call('GET', '/nodes');
  return items[0]?.up ? items[0].owner : undefined;
}

/** Makes this replica unable to fold the next commit about organisations. */
function spoil(folder: string): void {
  const db = openDatabase(join(fleet.dir, folder, 'state.db'), { durability: 'normal', busyTimeoutMs: 5000 });
  db.exec("CREATE TRIGGER spoilt BEFORE INSERT ON organisation BEGIN SELECT RAISE(ABORT, 'not kept'); END");
  db.close();
}

test('a replica whose log was moved away rejects its agent, which retries with pauses and ends at SIGTERM', async () => {
  const plane = await fleet.startPlane('cp-1');
  const way = await counting(plane);
  const agent = await agentOver(plane, way.url);
  await eventually(async () => expect(await ownerOf(plane)).toBe('cp-1'));
  mkdirSync(join(fleet.dir, 'away'));
  for (const file of readdirSync(fleet.logFolder))
    if (file.startsWith('headgate.control.db'))
      renameSync(join(fleet.logFolder, file), join(fleet.dir, 'away', file));
  await isFaulted(plane.ready, /removed/);
  const before = way.beganMs.length;
  await eventually(() => expect(way.beganMs.length).toBeGreaterThanOrEqual(before + 6));
  // Timers never fire early, so a lower bound is safe even on a busy machine.
  const tries = way.beganMs.slice(before);
  expect((tries[5] as number) - (tries[0] as number)).toBeGreaterThan(1500);
  expect((await health(agent.ready.metrics, '/livez')).status).toBe(200);
  await endsInOrder(agent);
});

test('if a replica’s fold stops, its agent moves to another replica, which takes over the node', async () => {
  const first = await fleet.startPlane('cp-1');
  const second = await fleet.startPlane('cp-2');
  const agent = await agentOver(first, first.ready.admin, second.ready.admin);
  await eventually(async () => expect(await ownerOf(second)).toMatch(/^cp-/));
  const owner = await ownerOf(second);
  const [halted, other] = owner === 'cp-1' ? [first, second] : [second, first];
  spoil(owner as string);
  await other.admin.call('POST', '/organisations', { id: 'bolt', name: 'Bolt' });
  await isFaulted(halted.ready, /not kept/);
  await eventually(async () => expect(await ownerOf(other)).toBe(owner === 'cp-1' ? 'cp-2' : 'cp-1'));
  await endsInOrder(agent);
});

test.each(['breaks off', 'answers that it cannot follow its log'])(
  'if its control plane %s during a download, a gateway retries a few times and starts from the log',
  async (how) => {
    const plane = await fleet.startPlane('cp-1');
    await fleet.fill(plane);
    let asked = 0;
    let askedForCounters = 0;
    const server = createHttpServer(({ url = '' }, response) => {
      if (url.startsWith('/admin/v1/counters')) askedForCounters++;
      else asked++;
      if (how !== 'breaks off') {
        response.writeHead(503).end('{"error":{"type":"LogUnavailable"}}');
        return;
      }
      response.writeHead(200, { 'content-length': 1_000_000, 'x-headgate-sha256': 'a'.repeat(64) });
      response.write(Buffer.alloc(100_000), () => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    servers.push(server);
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const gateway = await fleet.startGateway('edge-1', { flags: ['--control-plane', url] });
    expect(asked).toBe(2);
    expect(askedForCounters).toBeLessThanOrEqual(2);
    // Repeated failures are logged up to a minute apart, so the message may arrive late.
    await eventually(() => expect(gateway.stderr()).toContain('no snapshot could be fetched'));
    await eventually(async () => expect((await health(gateway.ready.metrics, '/readyz')).status).toBe(200));
    expect(readdirSync(join(fleet.dir, 'edge-1')).filter((name) => name.includes('.part'))).toEqual([]);
  },
);
