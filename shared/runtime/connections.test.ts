/** Tests limits on connections over real sockets: per listener and per address, and what clients see beyond a limit. */
import { Registry } from 'prom-client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { type ConnectionLimits, Connections, connectionLimits, peerPrefix } from './connections.ts';
import { startHealthServer } from './health-server.ts';
import { createHttpServer, refuseAsText } from './http-server.ts';
import { Certificate } from './tls.ts';

const fixture = (name: string): string =>
  new URL(`../../test/fixtures/tls/${name}`, import.meta.url).pathname;
const certificate = new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') });

interface BoundedServer {
  readonly port: number;
  readonly logged: object[];
  open(from?: string): Promise<RawPeer>;
  value(name: string, labels?: Record<string, string>): Promise<number | undefined>;
}

async function bounded(limits: Partial<ConnectionLimits>, tls = false): Promise<BoundedServer> {
  const registry = new Registry();
  const logged: object[] = [];
  const logger = { warn: (fields: object) => logged.push(fields) };
  const connections = new Connections({ registry, logger, limits });
  const server = createHttpServer(
    {
      ...{
        name: 'api',
        badHttp: refuseAsText,
        connections,
        headersTimeoutMs: 10_000,
        requestTimeoutMs: 10_000,
      },
      certificate: tls ? certificate : undefined,
    },
    (_request, response) => response.end('ok'),
  );
  const port = await portOf(server);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    port,
    logged,
    open: async (from) => {
      const peer = await RawPeer.open({ host: '127.0.0.1', port, tls }, from === undefined ? {} : { from });
      onTestFinished(() => peer.close());
      return peer;
    },
    value: async (name, labels = {}) => {
      const { values } = (await registry.getSingleMetric(`headgate_connections_${name}`)?.get()) ?? {};
      return values?.find((each) =>
        Object.entries(labels).every(([label, value]) => Object(each.labels)[label] === value),
      )?.value;
    },
  };
}

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

async function isServed(peer: RawPeer): Promise<boolean> {
  await peer.send(get);
  return peer.received(/200 OK/);
}

test.each([false, true])(
  'a listener accepts its maximum and refuses more until a connection ends (TLS: %s)',
  async (tls) => {
    const { open, value, logged } = await bounded({ max: 3, perAddress: 3 }, tls);
    const held = [await open(), await open(), await open()];
    for (const peer of held) expect(await isServed(peer)).toBe(true);
    // A client may see a refused connection as closed or as failed. Over TLS, it sees a failed one.
    for (let n = 0; n < 5; n++) {
      const refused = await open().catch(() => undefined);
      expect(refused === undefined ? false : await isServed(refused)).toBe(false);
    }
    expect(await value('refused_total', { reason: 'listener' })).toBe(5);
    expect(await value('open')).toBe(3);
    expect(logged.length, 'a line a second at most').toBeLessThan(5);
    expect(logged[0]).toMatchObject({ refused: { 'api listener': 1 } });
    held[0]?.close();
    await vi.waitFor(async () => expect(await value('open')).toBe(2));
    expect(await isServed(await open())).toBe(true);
  },
);

test.each([false, true])('an address gets its maximum, and others are served (TLS: %s)', async (tls) => {
  const { open, value } = await bounded({ max: 10, perAddress: 2 }, tls);
  const held = [await open(), await open()];
  for (const peer of held) expect(await isServed(peer)).toBe(true);
  const refused = await open().catch(() => undefined);
  expect(refused === undefined ? false : await isServed(refused)).toBe(false);
  expect(await value('refused_total', { reason: 'address' })).toBe(1);
  expect(await isServed(await open('127.0.0.2'))).toBe(true);
  held[1]?.close();
  await vi.waitFor(async () => expect(await value('open')).toBe(2));
  expect(await isServed(await open())).toBe(true);
});

test('one address never takes every place unless configured to', () => {
  const keepAliveMs = 75_000;
  expect(connectionLimits()).toEqual({ max: 10_000, perAddress: 9000, keepAliveMs });
  expect(connectionLimits({ max: 10 })).toEqual({ max: 10, perAddress: 9, keepAliveMs });
  expect(connectionLimits({ max: 1 })).toEqual({ max: 1, perAddress: 1, keepAliveMs });
  expect(connectionLimits({ max: 10, perAddress: 10 })).toEqual({ max: 10, perAddress: 10, keepAliveMs });
  expect(connectionLimits({ max: 10, keepAliveMs: 5000 })).toEqual({
    max: 10,
    perAddress: 9,
    keepAliveMs: 5000,
  });
});

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::9', '2001:db8:1:2'],
  ['2001:db8::9', '2001:db8:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::1', '0:0:0:0'],
])('%s counts as %s', (address, peer) => {
  expect(peerPrefix(address)).toBe(peer);
});

test('health checks have a small limit of their own, and a throwing check gives 500', async () => {
  const metrics = new Registry();
  const connections = new Connections({ registry: metrics });
  const health = await startHealthServer({
    ...{ host: '127.0.0.1', port: 0, metrics, connections },
    checks: () => {
      throw new Error('a check');
    },
  });
  const endpoint = { host: '127.0.0.1', port: Number(new URL(health.url).port), tls: false };
  expect((await fetch(`${health.url}/readyz`)).status).toBe(500);
  expect((await fetch(`${health.url}/livez`)).status).toBe(200);
  const peers = await Promise.all(Array.from({ length: 120 }, () => RawPeer.open(endpoint)));
  const served = await Promise.all(peers.map(isAnswered));
  expect(served.filter(Boolean).length).toBeGreaterThan(80);
  await vi.waitFor(() => expect(peers.filter(({ isClosed }) => !isClosed).length).toBeLessThanOrEqual(90));
  for (const peer of peers) peer.close();
  await health.close();
});

test.each([false, true])(
  'idle connections to the health port keep nobody from a response (TLS: %s)',
  async (tls) => {
    const metrics = new Registry();
    const health = await startHealthServer({
      ...{ host: '127.0.0.1', port: 0, metrics, connections: new Connections({ registry: metrics }) },
      certificate: tls ? certificate : undefined,
      checks: () => [],
    });
    const endpoint = { host: '127.0.0.1', port: Number(new URL(health.url).port), tls };
    const idle = ['127.0.0.1', '127.0.0.2'].flatMap((from) =>
      Array.from({ length: 95 }, () => RawPeer.open(endpoint, { from }).catch(() => undefined)),
    );
    const peers = (await Promise.all(idle)).filter((peer) => peer !== undefined);
    // Some of the peers have sent part of a request head, and others have already received a response.
    await Promise.all(peers.map((peer, at) => (at % 3 === 0 ? peer.send('GET /rea') : undefined)));
    await Promise.all(peers.slice(-30).map((peer, at) => (at % 3 === 1 ? isAnswered(peer) : undefined)));
    for (let ask = 0; ask < 50; ask++) {
      const peer = await RawPeer.open(endpoint, { from: ask % 2 === 0 ? '127.0.0.1' : '127.0.0.3' });
      expect(await isAnswered(peer), `ask ${ask}`).toBe(true);
      peers.push(peer);
    }
    for (const peer of peers) peer.close();
    await health.close();
  },
);

async function isAnswered(peer: RawPeer): Promise<boolean> {
  await peer.send('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n');
  return peer.received(/200 OK/);
}
