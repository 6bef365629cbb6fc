/**
 * Tests the pace at which connections start, over real sockets: how many start, in which order, and what happens to those for
 * which there is no room.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { until } from '../../test/support/until.ts';
import { Connections } from './connections.ts';
import { Certificate } from './tls.ts';

const fixture = (name: string): string =>
  new URL(`../../test/fixtures/tls/${name}`, import.meta.url).pathname;
const certificate = new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') });

const exempt = '127.9.9.9';
const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

interface Line {
  readonly refused: Readonly<Record<string, number>>;
  readonly address: string;
}

interface PacedServer {
  /** Current time of the clock that sets the pace, in ms. Tests advance it manually. */
  nowMs: number;
  /** Client addresses in the order in which their requests were handled. */
  readonly handled: string[];
  readonly sockets: Socket[];
  open(from: string): Promise<RawPeer>;
  refused(): Promise<number>;
  readonly connections: Connections;
  readonly logged: Line[];
}

async function paced(tls = false): Promise<PacedServer> {
  const registry = new Registry();
  const handled: string[] = [];
  const sockets: Socket[] = [];
  const clock = { nowMs: 0 };
  const logged: Line[] = [];
  const connections = new Connections({
    registry,
    logger: { warn: (fields) => logged.push(fields as Line) },
  });
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    handled.push(request.socket.remoteAddress ?? '');
    response.end('ok');
  };
  const server = tls ? createTlsServer(certificate.tls, handle) : createServer(handle);
  connections.guard(server, 'play', {
    isExempt: (address) => address === exempt,
    answer: () => 'HTTP/1.1 429 Later\r\n\r\n',
    monotonicMs: () => clock.nowMs,
  });
  server.on('connection', (socket: Socket) => sockets.push(socket));
  const port = await portOf(server);
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return Object.assign(clock, {
    ...{ handled, sockets, connections, logged },
    open: async (from: string) => {
      const peer = await RawPeer.open({ host: '127.0.0.1', port, tls }, { from });
      onTestFinished(() => peer.close());
      return peer;
    },
    refused: async (): Promise<number> => {
      const { values } = (await registry.getSingleMetric('headgate_connections_refused_total')?.get()) ?? {};
      return values?.find(({ labels }) => Object(labels).reason === 'rate')?.value ?? Number.NaN;
    },
  });
}

async function flood(server: PacedServer, from: string, count: number): Promise<RawPeer[]> {
  const before = server.sockets.length;
  const peers = await Promise.all(Array.from({ length: count }, () => server.open(from)));
  await until(() => server.sockets.length - before === count);
  for (const peer of peers) await peer.send(get).catch(() => undefined);
  return peers;
}

test('16 connections of a flood start at once, then 100 a second, and waiting ones are not read', async () => {
  const server = await paced();
  await flood(server, '127.0.1.1', 100);
  const handled = (count: number) => until(() => server.handled.length === count);
  await handled(16);
  expect(server.sockets.filter(({ bytesRead }) => bytesRead === 0)).toHaveLength(84);
  server.nowMs += 50;
  await handled(21);
  // Even after a long pause, no more connections start at once than at the beginning.
  server.nowMs += 60_000;
  await handled(37);
  await server.open(exempt);
  expect(server.handled).toHaveLength(37);
  expect(await server.refused()).toBe(0);
});

test('addresses take turns: a late one is next, however many connections another has waiting', async () => {
  const server = await paced();
  await flood(server, '127.0.1.1', 110);
  const others = ['127.0.1.2', '127.0.1.3'];
  for (const other of others) await flood(server, other, 2);
  server.nowMs += 60;
  await until(() => server.handled.length === 22);
  const turns = ['127.0.1.1', ...others].flatMap((address) => [address, address]);
  expect(server.handled.slice(-6).sort()).toEqual(turns);
});

test('an address gets a quarter of the free room, the next one a quarter of the rest; the refused read why', async () => {
  const server = await paced();
  const peers = await flood(server, '127.0.1.1', 200);
  // Of 200 connections, 16 start and 103 wait. The rest are refused, because an address may use only a quarter of the room
  // that remains, which is 512 - 103.
  expect(await server.refused()).toBe(200 - 16 - 103);
  await until(() => peers.some((peer) => peer.text.includes('429 Later')));
  await flood(server, '127.0.1.2', 100);
  expect(await server.refused()).toBe(200 - 16 - 103 + 100 - 82);
  const few = await Promise.all(Array.from({ length: 60 }, (_, n) => server.open(`127.0.2.${n + 1}`)));
  expect(await server.refused()).toBe(200 - 16 - 103 + 100 - 82);
  expect(few).toHaveLength(60);
});

test('in a full room, a new address replaces a connection of the address that has most', async () => {
  const server = await paced();
  // Of these 20 connections, 16 start and 4 wait.
  await flood(server, '127.0.1.1', 20);
  const single = await Promise.all(
    Array.from({ length: 508 }, (_, n) => server.open(`127.1.${n >> 7}.${n & 127}`)),
  );
  await until(() => server.sockets.length === 528);
  expect(await server.refused()).toBe(0);
  const late = await flood(server, '127.2.0.1', 1);
  await until(async () => (await server.refused()) === 1);
  await flood(server, '127.2.0.1', 1);
  await until(async () => (await server.refused()) === 2);
  expect([...late, ...single].filter((peer) => peer.text.includes('429 Later'))).toEqual([]);
  // Three connections of the first address are still waiting, and two of them can be displaced by others.
  for (const n of [2, 3, 4]) await flood(server, `127.2.0.${n}`, 1);
  await until(async () => (await server.refused()) === 5);
  expect([...late, ...single].filter((peer) => peer.text.includes('429 Later'))).toEqual([]);
});

test('the log counts refusals and contains no visitor’s address', async () => {
  const server = await paced();
  const refused = (cause: string): number =>
    server.logged.reduce((sum, { refused }) => sum + (refused[cause] ?? 0), 0);
  await flood(server, '127.0.1.1', 130);
  await until(() => refused('play rate') === 11);
  server.connections.refuseCall('play');
  await until(() => refused('play calls') === 1);
  expect(new Set(server.logged.map(({ address }) => address))).toEqual(new Set([undefined]));
});

test('an exempt address is not paced', async () => {
  const server = await paced();
  await flood(server, '127.0.1.1', 30);
  for (const peer of await flood(server, exempt, 40)) expect(await peer.received(/200 OK/)).toBe(true);
  expect(server.handled.filter((address) => address === '127.0.1.1')).toHaveLength(16);
});

test('over TLS the handshake waits too, and connections without room are closed', async () => {
  const server = await paced(true);
  const opened = await Promise.all(Array.from({ length: 16 }, () => server.open('127.0.1.1')));
  const waits = server.open('127.0.1.1');
  await until(() => server.sockets.length === 17);
  for (const peer of opened) {
    await peer.send(get);
    expect(await peer.received(/200 OK/)).toBe(true);
  }
  expect(server.sockets.at(-1)?.bytesRead).toBe(0);
  server.nowMs += 10;
  const started = await waits;
  await started.send(get);
  expect(await started.received(/200 OK/)).toBe(true);
  const many = Array.from({ length: 110 }, () => server.open('127.0.1.1').catch(() => 'closed'));
  await until(async () => (await server.refused()) === 7);
  expect(await Promise.race(many)).toBe('closed');
});
