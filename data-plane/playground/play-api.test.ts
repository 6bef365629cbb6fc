/** Tests calls of the playground's page over real HTTP, by clients that do not wait for the answer. */
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/pbkdf2';
import { afterAll, expect, test, vi } from 'vitest';
import { mintKey } from '../../shared/ids/api-key.ts';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { proxyList } from '../../shared/runtime/proxy-list.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { errorOf, post, type Reply } from '../../test/play/page-calls.ts';
import { known, recordsOf, sha256 } from '../../test/support/commits.ts';
import { serveExchanges } from '../../test/support/exchange-server.ts';
import { until } from '../../test/support/until.ts';
import type { EarlyRefusal } from '../http/early-refusal.ts';
import type { Gateway } from '../request/gateway.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { Challenges } from './challenges.ts';
import { PlayApi } from './play-api.ts';
import { Visitors } from './visitors.ts';

test('a client that leaves before its body is complete does not count as refused', async () => {
  const refused: EarlyRefusal[] = [];
  const gateway = {
    bodies: new BodyBudget(),
    observeEarly: (refusal: EarlyRefusal) => refused.push(refusal),
  } as unknown as Gateway;
  const options = { gateway, gatewayToken: 'token-a', proxies: proxyList([]), isTls: false };
  const api = new PlayApi({ ...options, consoleUrl: undefined });
  let isGone: boolean | undefined;
  const { port, destroy } = await serveExchanges(async (exchange) => {
    client.destroy();
    await api.handle(exchange);
    isGone = exchange.answer.isGone;
  });
  const client = connect(port, '127.0.0.1');
  const head = ['content-type: application/json', 'sec-fetch-site: same-origin', 'content-length: 100'];
  client.write(`POST /api/visitor HTTP/1.1\r\nhost: 127.0.0.1\r\n${head.join('\r\n')}\r\n\r\n{`);
  try {
    await until(() => isGone !== undefined);
    expect(isGone).toBe(true);
    expect(refused).toEqual([]);
  } finally {
    destroy();
  }
});

async function serving(gateway: Gateway): Promise<{ readonly port: number; readonly close: () => void }> {
  const options = { gateway, gatewayToken: 'token-a', proxies: proxyList(['127.0.0.1']), isTls: false };
  const api = new PlayApi({ ...options, consoleUrl: undefined });
  const { port, destroy } = await serveExchanges((exchange) => api.handle(exchange));
  return { port, close: destroy };
}

const snapshot = memorySnapshot();
afterAll(() => snapshot.db.close());
const key = mintKey(randomBytes);
snapshot.apply(
  recordsOf([
    [
      known('model.set', { id: 'echo', family: 'echo', added: '2026-01-01T00:00:00Z', weight: 1 }),
      known('pool.model_installed', { model: 'echo' }),
      known('anonymous.set', { freeTurns: 2, models: ['echo'] }),
      known('organisation.set', { id: 'acme', name: 'acme', tier: null, anchor: '2026-01-01' }),
      known('key.created', {
        ...{ id: 'key-1', organisation: 'acme', name: 'one', hash: sha256(key) },
        ...{ expires: 'never', expiresAt: null },
      }),
    ],
  ]),
);

test('the bodies of all visitors share one organisation’s memory, and take none from others', async () => {
  const bodies = new BodyBudget(1024 * 1024, 20_000);
  const ended: string[] = [];
  const gateway = {
    ...{
      bodies,
      lookup: createLookup(snapshot.db),
      fenced: () => false,
      awaitFreshProof: () => undefined,
      now: Date.now,
      logNow: Date.now,
    },
    hosts: { shared: new Set(['127.0.0.1']), stackDomain: 'stacks.test' },
    trace: () => undefined,
    begin: () => undefined,
    observe: ({ refusal }: RequestRecord) => ended.push(refusal?.reason ?? 'left'),
  } as unknown as Gateway;
  const { port, close } = await serving(gateway);
  const visitors = new Visitors('token-a');
  const cookies = [1, 2].map(() => visitors.mint(Date.now()).cookie);
  const name = `__Host-headgate-visitor-${port}`;
  const callers = [...cookies.map((cookie) => `cookie: ${name}=${cookie}`), `authorization: Bearer ${key}`];
  const clients: Socket[] = [];
  // Sends a body except for its last byte, so that the server has to hold the body in memory.
  const hold = (caller: string | undefined): void => {
    const head = ['content-type: application/json', 'sec-fetch-site: same-origin', 'content-length: 12000'];
    const client = connect(port, '127.0.0.1').on('error', () => undefined);
    clients.push(client);
    client.write(
      `POST /api/chat HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${caller}\r\n${head.join('\r\n')}\r\n\r\n`,
    );
    client.write('x'.repeat(11_999));
  };
  try {
    hold(callers[0]);
    await until(() => bodies.usedBytes >= 11_999);
    hold(callers[1]);
    await until(() => bodies.usedBytes >= 2 * 11_999);
    // Small bodies may use the organisation's share of the memory a second time once it is used up.
    hold(callers[0]);
    await until(() => bodies.usedBytes >= 3 * 11_999);
    hold(callers[1]);
    await until(() => ended.length > 0);
    hold(callers[2]);
    await until(() => bodies.usedBytes >= 4 * 11_999 || ended.length > 1);
    expect(ended).toEqual(['body budget of the organisation']);
  } finally {
    for (const client of clients) client.destroy();
    await until(() => ended.length === 5);
    close();
  }
  expect(ended.slice(1)).toEqual(['left', 'left', 'left', 'left']);
  expect(bodies.usedBytes).toBe(0);
});

test('a solution beyond its network’s rate gets 429, counts when sent again, and delays no other network', async () => {
  let monotonicMs = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => monotonicMs);
  const meter = { loadTotal: () => true, freeTurns: () => 0, networkTurns: () => 0 };
  const gateway = {
    ...{
      bodies: new BodyBudget(),
      lookup: createLookup(snapshot.db),
      now: Date.now,
      logNow: Date.now,
      meter,
    },
    observeEarly: () => undefined,
  } as unknown as Gateway;
  const { port, close } = await serving(gateway);
  const call = (address: string, body: object): Promise<Reply> =>
    post(new URL(`http://127.0.0.1:${port}/api/visitor`), body, { address });
  const [visitors, challenges] = [new Visitors('token-a'), new Challenges('token-a')];
  const challengeFor = (address: string) =>
    challenges.create(visitors.network(address, Date.now()), Date.now());
  try {
    for (const address of ['203.0.113.1', '203.0.113.2'])
      for (let n = 0; n < 3; n++) expect((await call(address, {})).cookie).toBeDefined();
    const rightOne = async (address: string) => {
      const challenge = challengeFor(address);
      return { solution: { challenge, solution: await solveChallenge({ challenge, deriveKey }) } };
    };
    const [early, other] = [await rightOne('203.0.113.1'), await rightOne('203.0.113.2')];
    const wrong = { counter: 1, derivedKey: '00'.repeat(32) };
    for (let n = 0; n < 25; n++) {
      const challenge = challengeFor('203.0.113.1');
      const answer = await call('203.0.113.1', { solution: { challenge, solution: wrong } });
      expect([answer.status, typeof answer.json['work']]).toEqual([200, 'object']);
    }
    const busy = await call('203.0.113.1', early);
    expect([busy.status, busy.retryAfter, errorOf(busy).type]).toEqual([
      ...[429, '1', 'InferenceRateLimitedError'],
    ]);
    expect((await call('203.0.113.2', other)).cookie).toBeDefined();
    monotonicMs += 1000;
    expect((await call('203.0.113.1', early)).cookie).toBeDefined();
  } finally {
    clock.mockRestore();
    close();
  }
});
