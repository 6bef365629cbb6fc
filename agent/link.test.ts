// Tests that an agent stays attached to a control plane as long as one accepts it, and reports its state. Uses WebSocket
// servers that accept, refuse, or stop responding.
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Beat, nodeConnectPath } from '../schemas/records/node-messages.ts';
import { sleep, systemClock } from '../shared/runtime/retry.ts';
import { portOf } from '../test/support/listen.ts';
import { stall } from '../test/support/stall.ts';
import { until } from '../test/support/until.ts';
import { ControlPlaneLink } from './link.ts';
import { readUpgradeError } from './upgrade-error.ts';

const token = 'ngt_test-token-of-this-file';
let logged = '';
const write = (line: string): void => {
  logged += line;
};
const logger = pino({ level: 'trace' }, { write });

interface Replica {
  readonly url: string;
  readonly server: Server;
  readonly frames: { type: string }[];
  readonly sockets: WebSocket[];
  /** HTTP status with which upgrades are refused, or 0 to accept them. */
  refuse: number;
  upgrades: number;
}

async function replica(autoPong = true): Promise<Replica> {
  const server = createServer();
  const sockets = new WebSocketServer({ noServer: true, autoPong });
  const one: Replica = { url: '', server, frames: [], sockets: [], refuse: 0, upgrades: 0 };
  server.on('upgrade', (request, socket, head) => {
    one.upgrades++;
    // A client that was refused may reset the connection.
    socket.on('error', () => undefined);
    const known = request.url === nodeConnectPath && request.headers.authorization === `Bearer ${token}`;
    if (one.refuse !== 0 || !known || request.headers.origin !== undefined)
      socket.end(`HTTP/1.1 ${one.refuse || 401} No\r\nconnection: close\r\n\r\n`);
    else
      sockets.handleUpgrade(request, socket, head, (upgraded) => {
        one.sockets.push(upgraded);
        upgraded.on('message', (data) => one.frames.push(JSON.parse(String(data)) as { type: string }));
      });
  });
  const port = await portOf(server);
  onTestFinished(() => {
    for (const socket of one.sockets) socket.terminate();
    server.close();
  });
  return Object.assign(one, { url: `http://127.0.0.1:${port}` });
}

/**
 * The pauses that the link asked for, the oldest first and with the random part at its maximum. The test waits for only a
 * hundredth of each.
 */
const pausesMs: number[] = [];
const clock = {
  ...systemClock,
  random: () => 1,
  sleep: (ms: number, signal?: AbortSignal) => {
    pausesMs.push(ms);
    return sleep(ms / 100, signal);
  },
};

const heartbeat: Beat = { type: 'beat', up: true, models: ['m'] };

function link(
  replicas: readonly Replica[],
  onInstalls: (models: readonly string[]) => void = () => undefined,
) {
  const one = new ControlPlaneLink({
    ...{ controlPlanes: replicas.map(({ url }) => url), node: 'pool-1', token, logger },
    heartbeat: () => heartbeat,
    heartbeatMs: 100,
    clock,
    onInstalls: (_position, models) => onInstalls(models),
  });
  onTestFinished(() => one.stop());
  one.start();
  return one;
}

const taken = (replicas: readonly Replica[]): Replica | undefined =>
  replicas.find(({ sockets }) => sockets.some(({ readyState }) => readyState === 1));

test('the agent sends one hello, then heartbeats at once and at intervals, and receives pushed messages', async () => {
  const only = await replica();
  const pushed: (readonly string[])[] = [];
  link([only], (models) => pushed.push(models));
  await until(() => only.frames.length >= 3);
  expect(only.frames.slice(0, 3)).toEqual([{ type: 'hello', v: 1, node: 'pool-1' }, heartbeat, heartbeat]);
  only.sockets[0]!.send('junk');
  only.sockets[0]!.send(JSON.stringify({ type: 'unknown' }));
  only.sockets[0]!.send(JSON.stringify({ type: 'installs', position: 3, models: ['a'] }));
  await until(() => pushed.length > 0);
  expect(pushed).toEqual([['a']]);
});

test('a replica that ends the session is replaced by another at once', async () => {
  const replicas = [await replica(), await replica()];
  link(replicas);
  await until(() => taken(replicas) !== undefined);
  const first = taken(replicas)!;
  const other = replicas.find((one) => one !== first)!;
  first.sockets[0]!.close(1001, 'this replica ends');
  await until(() => other.sockets.length === 1);
  expect(first.upgrades).toBe(1);
});

test('if no replica accepts the agent, it retries with growing pauses, and attaches once one does', async () => {
  const replicas = [await replica(), await replica()];
  for (const one of replicas) one.refuse = 503;
  pausesMs.length = 0;
  link(replicas);
  await until(() => pausesMs.length >= 9);
  expect(pausesMs.slice(0, 9)).toEqual([500, 400, 400, 800, 800, 1600, 1600, 3000, 3000]);
  // There is one attempt per pause, and one before the first pause.
  expect(replicas.reduce((sum, { upgrades }) => sum + upgrades, 0)).toBeLessThanOrEqual(pausesMs.length + 1);
  for (const one of replicas) one.refuse = 0;
  await until(() => taken(replicas) !== undefined);
});

test('a replica that answers no ping is abandoned', async () => {
  const silent = await replica(false);
  const well = await replica();
  link([silent, well]);
  await until(() => taken([silent, well]) !== undefined);
  // The agent meets the silent replica here, whichever replica it tried first.
  well.sockets[0]?.close(1001, 'this replica ends');
  const before = well.sockets.length;
  await until(() => well.sockets.length > before);
  expect(silent.sockets).toHaveLength(1);
});

test('a replica whose answers this process had no time to read is not abandoned', async () => {
  const only = await replica();
  const agent = link([only]);
  await until(() => only.frames.length >= 3);
  stall(1000);
  const before = only.frames.length;
  await until(() => only.frames.length > before + 4);
  expect(agent.connects).toBe(1);
});

test('an agent that leaves announces it, and waits until it is released', async () => {
  const only = await replica();
  const agent = link([only]);
  await until(() => only.frames.length >= 2);
  let left = false;
  const leaving = agent.leave().then(() => {
    left = true;
  });
  await until(() => only.frames.some(({ type }) => type === 'leaving'));
  expect(left).toBe(false);
  only.sockets[0]!.send(JSON.stringify({ type: 'released' }));
  await leaving;
});

test('the agent’s log contains no token', async () => {
  const only = await replica();
  only.refuse = 401;
  link([only]);
  await until(() => only.upgrades >= 2);
  expect(logged).toContain('not attached');
  expect(logged).not.toContain(token);
});

test.each([
  [
    'in its own words',
    JSON.stringify({ error: { message: 'this node is registered without an agent', next: 'register it' } }),
    'refused with 409: this node is registered without an agent; register it',
  ],
  ['with its status, if the body is not an error', '<html>', 'refused with 409'],
  [
    'with its status, if the body is too large',
    JSON.stringify({ error: { message: 'x'.repeat(5000) } }),
    'refused with 409',
  ],
])('a replica’s refusal of the agent is logged %s', async (_how, body, expected) => {
  const server = createServer((_request, response) => response.writeHead(409).end(body));
  const port = await portOf(server);
  onTestFinished(() => void server.close());
  const response = await new Promise<IncomingMessage>((resolve) => {
    get({ port, agent: false }, resolve).on('error', () => undefined);
  });
  expect(await readUpgradeError(response)).toBe(expected);
});
