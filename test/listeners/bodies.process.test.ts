/**
 * Sends the kinds of bodies that anyone may send to every listener of every process. Memory must stay bounded, dripping
 * bodies must time out, no body may occupy the event loop for long, and other callers must be answered meanwhile. Turns are
 * measured in CPU time. A simulated node parses bodies as an engine does, so its turns are not checked.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ListenerName } from '../../shared/runtime/connections.ts';
import { exchange, RawPeer, statusesIn } from '../support/raw-peer.ts';
import { until } from '../support/until.ts';
import { shapes } from './bodies.ts';
import { type Listener, ListenerFleet, listenersOf } from './fleet.ts';

const MiB = 1024 * 1024;
const turnMsMax = 50;
/** Number of rounds. The best one counts, because other processes share the core's caches. */
const roundsMax = 4;
const isGateway = ({ kind }: Listener): boolean => kind === 'api' || kind === 'stack';
/**
 * Largest growth of memory, in MiB. A gateway allows an organisation 64 MiB, and starts a thread with a heap of its own for a
 * large body.
 */
const heldMiBMax = (listener: Listener): number => (isGateway(listener) ? 300 : 150);
/** Number of 8 MiB bodies that a gateway reads: eight that fit into an organisation's 64 MiB, and one that may exceed it. */
const bodiesOfShare = 9;

const fleet = new ListenerFleet({ isMetered: true });
const figures: string[] = [];
beforeAll(() => fleet.open(), 120_000);
afterAll(async () => {
  console.log(figures.join('\n'));
  await fleet.close();
});

interface Way {
  /** Path to which the attack posts. The path's handler reads the body before it answers. */
  readonly path: string;
  readonly headers?: (listener: Listener) => readonly string[];
  /** True if the listener refuses a body with an error envelope. */
  readonly hasEnvelope?: true;
  /** Path that another caller requests during the attack. */
  readonly other: string;
}

const bearer = ({ bearer: token }: Listener): string[] => [`Authorization: Bearer ${token}`];
const ofPage = ({ endpoint }: Listener): string[] => [`Origin: http://127.0.0.1:${endpoint.port}`];
const chat: Way = {
  ...{ path: '/v1/chat/completions', headers: bearer, other: '/v1/models' },
  hasEnvelope: true,
};

/** One entry for every listener. The type forces a new listener to have one. */
const ways: Readonly<Record<ListenerName, Way>> = {
  api: chat,
  stack: chat,
  admin: {
    ...{ path: '/admin/v1/organisations', headers: bearer, other: '/admin/v1/openapi.json' },
    hasEnvelope: true,
  },
  console: { path: '/api/session', headers: ofPage, hasEnvelope: true, other: '/api/sign-in' },
  play: { path: '/api/visitor', headers: ofPage, other: '/' },
  node: { path: '/v1/chat/completions', other: '/v1/models' },
  metrics: { path: '/livez', other: '/livez' },
};
const names = Object.entries(listenersOf).flatMap(([process, kinds]) =>
  kinds.map((kind) => `${process}: ${kind}`),
);

/** Returns the head of a request whose body follows, with a length or in chunks. */
function head(
  listener: Listener,
  length: number | undefined,
  target = `POST ${ways[listener.kind].path}`,
): string {
  const own = ways[listener.kind].headers?.(listener) ?? [];
  const size = length === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`;
  const lines = [`Host: 127.0.0.1:${listener.endpoint.port}`, ...own, 'Content-Type: application/json', size];
  return [`${target} HTTP/1.1`, ...lines, '', ''].join('\r\n');
}

async function expectOtherServed(listener: Listener): Promise<void> {
  const { other, headers } = ways[listener.kind];
  const peer = await RawPeer.open(listener.endpoint, { from: '127.0.0.2' });
  const own = [`Host: 127.0.0.1:${listener.endpoint.port}`, ...(headers?.(listener) ?? [])];
  await peer.send([`GET ${other} HTTP/1.1`, ...own, 'Connection: close', '', ''].join('\r\n'));
  await peer.received(/\r\n\r\n/);
  expect(statusesIn(peer.text)).toEqual([200]);
  peer.close();
}

async function metricOf({ health }: Listener, name: string): Promise<number> {
  const text = await exchange(
    health,
    'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n',
  );
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1]);
}

function memoryMiB({ process }: Listener, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${process.child.pid}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
}

async function grownMiB(listener: Listener, run: () => Promise<void>): Promise<number> {
  writeFileSync(`/proc/${listener.process.child.pid}/clear_refs`, '5');
  const before = memoryMiB(listener, 'VmRSS');
  await run();
  return memoryMiB(listener, 'VmHWM') - before;
}

async function longestTurnMs({ process: { child, turns = '' } }: Listener): Promise<number> {
  rmSync(turns, { force: true });
  child.kill('SIGUSR2');
  await vi.waitUntil(() => existsSync(turns), { timeout: 60_000, interval: 5 });
  return Number(readFileSync(turns, 'utf8'));
}

async function answerTo(listener: Listener, body: string, target?: string): Promise<string> {
  const peer = await RawPeer.open(listener.endpoint);
  await peer.send(head(listener, body.length, target) + body);
  await peer.received(/\r\n\r\n./);
  peer.close();
  return peer.text;
}

async function bestTurnMs(listener: Listener, run: () => Promise<string>, bound: number): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < roundsMax && best >= bound; round++) {
    await longestTurnMs(listener);
    const answer = await run();
    expect(statusesIn(answer)[0], answer.slice(0, 300)).toBeGreaterThanOrEqual(200);
    best = Math.min(best, await longestTurnMs(listener));
  }
  return best;
}

describe.each(names)('%s', (name) => {
  const listenerOf = (): Listener => fleet.listener(name);

  test('holds limited memory for incomplete bodies, and others are served', async () => {
    const listener = listenerOf();
    const peers: RawPeer[] = [];
    const grown = await grownMiB(listener, async () => {
      for (let n = 0; n < 32; n++) {
        const peer = await RawPeer.open(listener.endpoint);
        peers.push(peer);
        await peer.send(head(listener, 8 * MiB));
        // Listeners refuse a body before it is complete and then drain it. But a gateway does not read a body that must wait
        // for memory.
        const sent = peer.send(Buffer.alloc(8 * MiB - 1, ' '));
        if (!isGateway(listener) || n < bodiesOfShare) await sent;
        // Waits until the body has all the memory it needs. If two bodies arrived at once, each might get only a part of the
        // remaining budget.
        if (isGateway(listener) && n < bodiesOfShare)
          await until(
            async () => (await metricOf(listener, 'headgate_request_body_bytes')) >= (n + 1) * 8 * MiB,
          );
      }
      if (isGateway(listener))
        await vi.waitFor(
          async () => {
            const answered = peers.flatMap(({ text }) => statusesIn(text));
            const waiting = await metricOf(listener, 'headgate_request_bodies_waiting');
            expect({ waiting, answered }).toEqual({ waiting: 32 - bodiesOfShare, answered: [] });
          },
          { timeout: 20_000 },
        );
      await expectOtherServed(listener);
    });
    figures.push(`${name}: 32 bodies short of 8 MiB: ${grown.toFixed(0)} MiB more`);
    for (const peer of peers) peer.close();
    if (listener.kind !== 'node') expect(grown).toBeLessThan(heldMiBMax(listener));
  });

  test('answers a body of one-byte chunks or ends its connection, and others are served', async () => {
    const listener = listenerOf();
    const block = Buffer.from('1\r\n \r\n'.repeat(20_000));
    const grown = await grownMiB(listener, async () => {
      const peer = await RawPeer.open(listener.endpoint);
      await peer.send(head(listener, undefined));
      for (let n = 0; n < 40; n++) await peer.send(block);
      await peer.send('0\r\n\r\n');
      await expectOtherServed(listener);
      // Closes the connection once it is answered, because the listener may keep it open as long as any other connection.
      await peer.received(/\r\n\r\n/);
      peer.close();
    });
    figures.push(`${name}: 800 000 one-byte chunks: ${grown.toFixed(0)} MiB more`);
    expect(grown).toBeLessThan(heldMiBMax(listener));
  });

  test('refuses a body beyond the limit in the envelope, by its length and by its chunks', async () => {
    const listener = listenerOf();
    if (ways[listener.kind].hasEnvelope === undefined) return;
    const bytes = 33 * MiB;
    const peer = await RawPeer.open(listener.endpoint);
    await peer.send(head(listener, bytes));
    await peer.received(/\r\n\r\n\{.*\}/);
    const chunked = await RawPeer.open(listener.endpoint);
    await chunked.send(`${head(listener, undefined)}${bytes.toString(16)}\r\n`);
    for (let sent = 0; sent < bytes && !/\}/.test(chunked.text); sent += MiB)
      await chunked.send(Buffer.alloc(MiB, ' '));
    await chunked.received(/\r\n\r\n\{.*\}/);
    for (const { text } of [peer, chunked]) {
      expect(statusesIn(text), text).toEqual([413]);
      expect(JSON.parse(/\{.*\}/.exec(text)?.[0] ?? '')).toMatchObject({ error: { status: 413 } });
    }
    for (const one of [peer, chunked]) one.close();
  });

  test.each(Object.entries(shapes))('is not blocked by any body: %s', async (shape, make) => {
    const listener = listenerOf();
    if (listener.kind === 'node') return;
    for (const bytes of [4 * 1024, 64 * 1024, 8 * MiB]) {
      const body = make(bytes);
      const longest = await bestTurnMs(listener, () => answerTo(listener, body), turnMsMax);
      figures.push(`${name}: ${shape}, ${bytes} bytes: ${longest.toFixed(1)} ms`);
      expect(longest, `${bytes} bytes`).toBeLessThan(turnMsMax);
    }
  });
});

/**
 * Sends a dripping or stalled body. Returns the listener's name with the status of the answer, or with `undefined` if the
 * connection was cut.
 */
async function dripped(name: string, isDripping: boolean): Promise<string> {
  const listener = fleet.listener(name);
  const peer = await RawPeer.open(listener.endpoint);
  await peer.send(head(listener, 1000));
  const drips = isDripping ? setInterval(() => void peer.send(' '), 500) : undefined;
  await vi.waitUntil(() => peer.isClosed || peer.text !== '', { timeout: 120_000, interval: 50 });
  clearInterval(drips);
  const [status] = statusesIn(peer.text);
  peer.close();
  return `${name} ${status}`;
}

describe('while bodies trickle in on every listener', () => {
  let answers: Promise<string[]>;
  beforeAll(() => {
    answers = Promise.all(names.flatMap((name) => [dripped(name, true), dripped(name, false)]));
  });

  // Only the operator may send bodies of these shapes. body-limits.ts measures what it costs to check and compare a valid
  // one.
  test.each(Object.entries(shapes))(
    'the largest body that a replica accepts blocks its event loop for less than half a second: %s',
    async (shape, make) => {
      const listener = fleet.listener('control plane: admin');
      for (const [target, bound] of [
        ['PUT /admin/v1/tiers/Wide', turnMsMax],
        ['POST /admin/v1/fleet/diff', 500],
      ] as const)
        for (const bytes of [160 * 1024, MiB, 3 * MiB, 8 * MiB]) {
          const body = make(bytes);
          const longest = await bestTurnMs(listener, () => answerTo(listener, body, target), bound);
          figures.push(`${target}: ${shape}, ${bytes} bytes: ${longest.toFixed(1)} ms`);
          expect(longest, `${target}: ${bytes} bytes`).toBeLessThan(bound);
        }
    },
  );

  test('a trickling body and one that never comes are answered or cut off', async () => {
    expect(await answers).toEqual(
      names.flatMap((name) => {
        const { kind } = fleet.listener(name);
        const status = kind === 'metrics' ? 200 : kind === 'node' ? 400 : 503;
        return [`${name} ${status}`, `${name} ${status}`];
      }),
    );
  });
});
