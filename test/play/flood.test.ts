/**
 * Tests that visitors from other networks and key holders are served during a flood of connections to the playground's
 * listener.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { completion } from '../support/process-fleet.ts';
import { endpointOf, RawPeer, statusesIn } from '../support/raw-peer.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';
import { errorOf, post, type Reply, turnsOf } from './page-calls.ts';

let fleet: TestFleet;
beforeAll(async () => {
  const anonymous = { freeTurns: 2, networkFactor: 2, models: ['echo-small'] };
  fleet = await startFleet({
    fleet: (urls) => ({ ...specFleet(urls), anonymous }),
    gateways: 2,
    gateway: { play: { port: 0, hosts: [], trustedProxies: ['127.0.0.1'] } },
  });
});
afterAll(() => fleet.close());

const page = (path: string): URL => new URL(path, fleet.gateways[0]?.play);
/** Returns a URL on the flooded gateway. The flood does not count towards the other gateway's budgets. */
const flooded = (path: string): URL => new URL(path, fleet.gateways[1]?.play);
const turn = { model: 'echo-small', stream: true, messages: [{ role: 'user', content: 'hello' }] };

async function refused(reason: string): Promise<number> {
  const text = await (await fetch(`${fleet.gateways[0]?.metrics}/metrics`)).text();
  const sample = `headgate_connections_refused_total\\{listener="play",reason="${reason}"\\} (\\d+)`;
  return Number(new RegExp(sample).exec(text)?.[1]);
}

async function opened(): Promise<number> {
  const text = await (await fetch(`${fleet.gateways[1]?.metrics}/metrics`)).text();
  return Number(/headgate_connections_open\{listener="play"\} (\d+)/.exec(text)?.[1]);
}

/** Keeps opening connections from an address until the flood is over, and reopens each one that closes. */
async function floodFrom(address: string, isOver: () => boolean): Promise<void> {
  const endpoint = endpointOf(String(flooded('/')));
  const body = `{"padding":"${'x'.repeat(100)}"}`;
  const head = ['host: 127.0.0.1', 'content-type: application/json', 'sec-fetch-site: same-origin'];
  const call = `POST /api/visitor HTTP/1.1\r\n${head.join('\r\n')}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  while (!isOver()) {
    const peer = await RawPeer.open(endpoint, { from: address }).catch(() => undefined);
    await peer?.send(call).catch(() => undefined);
    await Promise.race([peer?.received(/HTTP\/1.1/), peer?.closed]);
    peer?.close();
  }
}

test('while two networks open connections endlessly, a visitor from another one can start and take turns', async () => {
  const { value: key } = await fleet.key('acme');
  let isOver = false;
  const attackers = Array.from({ length: 300 }, (_, n) => floodFrom(`127.0.1.${(n % 2) + 1}`, () => isOver));
  try {
    // These are more connections than can start at once. Whether the rest wait or are refused depends on the machine.
    await until(async () => (await opened()) >= 32);
    // Uses another address than the proxy, whose connections are not limited.
    const endpoint = endpointOf(String(flooded('/')));
    const honest = await RawPeer.open(endpoint, { from: '127.0.2.1' });
    await honest.send('GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
    expect(await honest.received(/HTTP\/1.1 200/)).toBe(true);
    honest.close();
    const from = { address: '203.0.113.1' };
    const begun = await post(flooded('/api/visitor'), {}, from);
    const as = { ...from, cookie: begun.cookie };
    expect((await post(flooded('/api/chat'), turn, as)).status).toBe(200);
    expect(turnsOf(await post(flooded('/api/visitor'), {}, as))).toEqual({ left: 1, limit: 2 });
    const paid = await completion(fleet.gateways[1]?.api ?? '', key, { messages: turn.messages });
    expect([paid.status, await paid.text()]).toEqual([200, expect.stringContaining('choices')]);
  } finally {
    isOver = true;
    await Promise.all(attackers);
  }
});

/** Stops the budgets' clock at the start of a new second, so that only the calls that `work` makes count in this second. */
async function inOneSecond<Result>(work: () => Promise<Result>): Promise<Result> {
  const second = (): number => Math.floor(performance.now() / 1000);
  const before = second();
  await until(() => second() > before);
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now());
  try {
    return await work();
  } finally {
    clock.mockRestore();
  }
}

test('calls beyond a network’s rate are refused and disconnected, and other networks are not affected', async () => {
  const url = page('/api/visitor');
  const call = (address: string) => post(url, {}, { address });
  const answers = await inOneSecond(async () => {
    const own = await Promise.all(Array.from({ length: 110 }, () => call('203.0.113.7')));
    expect((await call('203.0.113.8')).cookie).toBeDefined();
    return own;
  });
  const late = answers.filter(({ status, retryAfter }) => status === 429 && retryAfter === '2');
  expect(late).toHaveLength(10);
  expect(errorOf(late[0] as Reply)).toMatchObject({
    type: 'InferenceRateLimitedError',
    message: 'The playground is too busy. Try again in 2 seconds.',
    path: '/api/visitor',
  });
  expect(await refused('calls')).toBe(10);
});

test('calls sent ahead of a refusal are not answered', async () => {
  const head = ['host: 127.0.0.1', 'content-type: application/json', 'sec-fetch-site: same-origin'];
  const call = `POST /api/visitor HTTP/1.1\r\n${head.join('\r\n')}\r\ncontent-length: 2\r\n\r\n{}`;
  const answered = ({ text }: RawPeer): readonly number[] => statusesIn(text);
  const sentAhead = 30;
  const peers: RawPeer[] = [];
  const before = await refused('calls');
  await inOneSecond(async () => {
    for (let n = 0; n < 5; n++) {
      const peer = await RawPeer.open(endpointOf(String(page('/'))), { from: '127.0.0.1' });
      peers.push(peer);
      await peer.send(call.repeat(sentAhead));
      await until(() => peer.isClosed || answered(peer).length === sentAhead);
    }
  });
  for (const peer of peers) peer.close();
  const ended = peers.filter((peer) => answered(peer).includes(429));
  // The 100 calls are three complete connections and 10 calls of the next one, which ends with a refusal.
  expect(ended.map((peer) => answered(peer).length)).toEqual([11, 1]);
  expect((await refused('calls')) - before).toBe(ended.length);
});

test('only a valid key may use the calls reserved for keys, and a new visitor never may', async () => {
  const { value } = await fleet.key('acme');
  const call = async (path: string, key: string, address: string): Promise<number> => {
    const headers = { authorization: `Bearer ${key}` };
    return (await post(page(path), {}, { address, headers })).status;
  };
  const calls = (path: string, key: string, address: string) =>
    Promise.all(Array.from({ length: 101 }, () => call(path, key, address)));
  await inOneSecond(async () => {
    expect(
      (await calls('/api/key', 'hg_wrong', '203.0.113.11')).filter((status) => status === 429),
    ).toHaveLength(1);
    expect(await call('/api/key', value, '203.0.113.11')).toBe(200);
  });
  await inOneSecond(async () => {
    await calls('/api/visitor', value, '203.0.113.12');
    expect(await call('/api/visitor', value, '203.0.113.12')).toBe(429);
    expect(await call('/api/key', value, '203.0.113.12')).toBe(200);
  });
});

test('other requests have a budget too, whatever name they ask for', async () => {
  const address = '203.0.113.13';
  const ask = async (host: string): Promise<number> =>
    (await post(page('/none'), {}, { address, host })).status;
  await inOneSecond(async () => {
    for (const [host, status] of [
      ['127.0.0.1', 404],
      ['other.example', 421],
    ] as const) {
      const statuses = await Promise.all(Array.from({ length: 200 }, () => ask(host)));
      expect(new Set(statuses)).toEqual(new Set([status]));
    }
    expect([await ask('127.0.0.1'), await ask('other.example')]).toEqual([429, 429]);
    expect((await post(page('/api/visitor'), {}, { address })).status).toBe(200);
  });
});
