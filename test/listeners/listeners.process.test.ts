/**
 * Attacks every listener of every process, plain and over TLS, with bytes that anyone who reaches its port may send. The
 * process must survive, answer health checks, and keep nothing of connections that have ended.
 */
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { listenerKinds } from '../../shared/runtime/connections.ts';
import { exchange, RawPeer, statusesIn } from '../support/raw-peer.ts';
import { within } from '../support/until.ts';
import { badHeads, stages, targets } from './attacks.ts';
import { type Listener, ListenerFleet, listenerNames } from './fleet.ts';

const fleet = new ListenerFleet();
beforeAll(() => fleet.open(), 120_000);
afterAll(() => fleet.close());

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`;

async function expectAlive({ process, health }: Listener, after: string): Promise<void> {
  const { exitCode, signalCode } = process.child;
  if (exitCode !== null || signalCode !== null)
    expect.fail(`the process ended after ${after}: ${process.stderr().slice(-2000)}`);
  const answer = await exchange(health, get('/livez')).catch((error: unknown) => String(error));
  expect(statusesIn(answer), `${after}: ${answer}; ${process.stderr().slice(-2000)}`).toEqual([200]);
}

/** Returns the number of open connections on the listener, according to the metrics of its process. */
async function openConnections({ kind, health }: Listener): Promise<number> {
  const text = await exchange(health, get('/metrics'));
  const open = new RegExp(`^headgate_connections_open\\{listener="${kind}"\\} (\\d+)`, 'm').exec(text)?.[1];
  if (open === undefined) throw new Error(`no connections are counted for ${kind}`);
  return Number(open);
}

/**
 * Returns the number of open sockets, or 0 if the system does not show them. Files are left out, because their number grows
 * anyway.
 */
function socketsOf({ process }: Listener): number {
  const folder = `/proc/${process.child.pid}/fd`;
  if (!existsSync(folder)) return 0;
  return readdirSync(folder).filter((name) => isSocket(join(folder, name))).length;
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    // The descriptor was closed after the folder was listed.
    return false;
  }
}

/** Number of connections that may be open for other reasons: health probes of load balancers, agents, and metric scrapes. */
const slack = 6;
/** Number of connections and sockets of each listener before the resets. */
const held = new Map<string, { readonly open: number; readonly sockets: number }>();

test('these attacks cover every listener of the product', () => {
  expect(new Set([...fleet.listeners.values()].map(({ kind }) => kind))).toEqual(new Set(listenerKinds));
});

describe.each(listenerNames)('%s', (name) => {
  test('refuses a head that can be read in two ways', async () => {
    const listener = fleet.listener(name);
    for (const [what, head] of badHeads) {
      const answer = await exchange(listener.endpoint, `${head}\r\nConnection: close\r\n\r\n`);
      expect(statusesIn(answer), `${what}: ${answer.slice(0, 300)}`).toEqual([400]);
    }
    await expectAlive(listener, 'heads that can be read in two ways');
  });

  test('answers every request target and stays alive', async () => {
    const listener = fleet.listener(name);
    for (const [what, target] of targets) {
      for (const method of ['GET', 'POST']) {
        const lines = [
          `${method} ${target} HTTP/1.1`,
          'Host: 127.0.0.1',
          'Connection: close',
          'Content-Length: 0',
        ];
        const answer = await exchange(listener.endpoint, [...lines, '', ''].join('\r\n'));
        const statuses = statusesIn(answer);
        expect(statuses, `${method} ${what}: ${answer.slice(0, 300)}`).toHaveLength(1);
        expect(statuses[0], `${method} ${what}`).toSatisfy((status: number) => status < 500);
      }
      await expectAlive(listener, what);
    }
  });

  test('stays alive through a reset at every stage of an exchange', async () => {
    const listener = fleet.listener(name);
    held.set(name, { open: await openConnections(listener), sockets: socketsOf(listener) });
    for (const stage of stages) {
      // Resets the connection immediately, some event loop turns later, or once the answer has begun.
      for (const turns of [0, 0, 1, 4, 16, 'answer'] as const) {
        const handshake = stage.bare === undefined;
        const peer = await RawPeer.open(listener.endpoint, { handshake });
        await stage.run(peer, (line, ...lines) =>
          [line, 'Host: 127.0.0.1', `Authorization: Bearer ${listener.bearer}`, ...lines, '', ''].join(
            '\r\n',
          ),
        );
        if (turns !== 'answer')
          for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
        else if (stage.answered)
          expect(await peer.received(/HTTP\/1\.1 \d/), `${stage.name}: an answer`).toBe(true);
        peer.reset();
        await peer.closed;
      }
      await expectAlive(listener, `a reset ${stage.name}`);
    }
  });
});

test.each(listenerNames)(
  '%s lets a client that keeps sending read the last response of its connection',
  async (name) => {
    const { endpoint, bearer } = fleet.listener(name);
    const lines = ['Host: 127.0.0.1', `Authorization: Bearer ${bearer}`, 'Connection: close', '', ''];
    // Sends further bytes after the request head: more requests, or bytes that are not HTTP.
    for (const more of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', '\0'])
      for (let round = 0; round < 3; round++) {
        const peer = await RawPeer.open(endpoint, { halfOpen: true });
        await peer.send(
          ['GET /v1/models HTTP/1.1', ...lines].join('\r\n') + more.repeat(1_000_000 / more.length),
        );
        await peer.ended;
        for (let turn = 0; turn < 20; turn++) {
          await peer.send('x');
          await new Promise((resolve) => setImmediate(resolve));
        }
        expect(peer.isBroken, peer.text.slice(0, 200)).toBe(false);
        expect(statusesIn(peer.text)).toHaveLength(1);
        peer.close();
      }
  },
);

// Runs after the resets of all listeners, so that the waits for their connections overlap.
test.each(listenerNames)('%s keeps none of the reset connections', async (name) => {
  const listener = fleet.listener(name);
  await vi.waitFor(
    async () => {
      expect(await openConnections(listener)).toBeLessThanOrEqual((held.get(name)?.open ?? 0) + slack);
      expect(socketsOf(listener)).toBeLessThanOrEqual((held.get(name)?.sockets ?? 0) + slack);
    },
    { timeout: 20_000, interval: 200 },
  );
});

/** Bytes that a listener answers by closing, although the client keeps its side of the connection open. */
const endings = {
  CONNECT: 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n',
  'CONNECT behind a request': `${get('/').replace('close', 'keep-alive')}CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n`,
  'bytes that are no HTTP': '\0\x01\r\n\r\n',
  'an upgrade with a body':
    'POST /admin/v1/keys HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 9\r\n\r\n{"a":"b"}',
};

/** Connects twenty clients that send these bytes, and waits until the listener has closed their connections. */
async function closesAfter(listener: Listener, bytes: string): Promise<void> {
  const lines = `Authorization: Bearer ${listener.bearer}\r\n`;
  const peers = await Promise.all(
    Array.from({ length: 20 }, () => RawPeer.open(listener.endpoint, { halfOpen: true })),
  );
  for (const [at, peer] of peers.entries()) {
    await peer.send(bytes.replace('Host: a\r\n', `Host: a\r\nConnection: close\r\n${lines}`));
    // Half of the clients close their own side.
    if (at % 2 === 0) peer.end();
  }
  await Promise.all(peers.map(({ ended }) => ended));
  for (const peer of peers) peer.close();
}

// Tests all listeners at the same time, because each waits for seconds before it closes a connection.
test('every listener closes connections that their clients keep open', async () => {
  const waiting = new Set<string>();
  const closing = listenerNames.map(async (name) => {
    const listener = fleet.listener(name);
    const before = await openConnections(listener);
    await Promise.all(
      Object.entries(endings).map(async ([what, bytes]) => {
        waiting.add(`${name} after ${what}`);
        await closesAfter(listener, bytes);
        waiting.delete(`${name} after ${what}`);
      }),
    );
    await vi.waitFor(
      async () => expect(await openConnections(listener), name).toBeLessThanOrEqual(before + slack),
      { timeout: 20_000, interval: 200 },
    );
    await expectAlive(listener, 'closing');
  });
  await within(60_000, Promise.all(closing)).catch((error: Error) => {
    throw new Error(`${error.message}; not closed: ${[...waiting].join(', ')}`);
  });
});
