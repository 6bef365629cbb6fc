/**
 * Tests the chapter "Limits" of the specification: each limit is exact, refills on time, and is released however a request
 * ends.
 */

import { connect } from 'node:net';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import { mintKey } from '../../shared/ids/api-key.ts';
import { type Behaviour, parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, call, chat, chatBody, expectRefusal } from '../support/api.ts';
import { runs } from '../support/budget.ts';
import { roomInMinute, takeClock, untilReady } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { type Held, hold } from '../support/held.ts';
import { comparable, rawRequest, requestText } from '../support/raw-http.ts';
import { RawPeer, statusesIn } from '../support/raw-peer.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';

const clock = takeClock();
const dayMs = 24 * 60 * 60 * 1000;
const models = ['echo-small', 'echo-large', 'echo-embed'];
let fleet: TestFleet;
let port: number;
beforeAll(async () => {
  fleet = await startFleet({
    gateways: 2,
    // Tests move the clock, which makes the state stale. Staleness is not their subject, so keep serving.
    gateway: { whenStale: 'serve' },
    fleet: (urls) => ({
      ...specFleet(urls),
      tiers: [
        { id: 'Starter', models },
        { id: 'Pro', models },
        { id: 'Minutely', requestsPerMinute: 3, models },
        { id: 'Never', requestsPerMinute: 0, models },
        { id: 'Slim', concurrency: 4, contextTokens: 8192, models },
        { id: 'Tight', concurrency: 2, models },
        { id: 'Tightest', concurrency: 2, models: ['echo-small'] },
        { id: 'Shut', concurrency: 0, models },
        { id: 'Narrow', contextTokens: 100, models },
        { id: 'Thrifty', monthlyTokens: 50, models },
        { id: 'Spare', models },
        { id: 'Platinum', models: '*' },
      ],
    }),
  });
  port = fleet.port();
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});
const healthy = parseBehaviour({});
const spoil = (fault: object): Behaviour => parseBehaviour({ rules: [{ fault }] });
afterEach(() => {
  fleet.nodes['pool-1'].setBehaviour(healthy);
});

let organisations = 0;
async function callerOn(tier: string): Promise<{ id: string; key: string }> {
  const id = `caller-${++organisations}`;
  await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
  const { value: key } = await fleet.key(id);
  await fleet.settle();
  roomInMinute(clock, id);
  return { id, key };
}

const ask = (key: string, model = 'echo-small', more = {}): Promise<Answer> =>
  chat({ port, key, model, more });

test('Limits 1: one gateway’s minute allows exactly the tier’s requests, however they arrive', async () => {
  const { key } = await callerOn('Minutely');
  const statuses = (await Promise.all(Array.from({ length: 20 }, () => ask(key)))).map(
    ({ status }) => status,
  );
  expect(statuses.filter((status) => status === 200)).toHaveLength(3);
  expect(statuses.filter((status) => status === 429)).toHaveLength(17);
});

test('Limits 1: token counting has its own minute and takes nothing from requests', async () => {
  const { id, key } = await callerOn('Minutely');
  const { id: stack } = await fleet.admin.call('POST', '/stacks', { organisation: id, surface: 'anthropic' });
  await fleet.settle();
  const ofStack = async (path: string): Promise<number> => {
    const body = { ...chatBody('echo-small'), ...(path === '/v1/messages' && { max_tokens: 9 }) };
    return (await call({ port, key, host: `${stack}.stacks.test`, method: 'POST', path, body })).status;
  };
  const counts: number[] = [];
  for (let n = 0; n < 4; n++) counts.push(await ofStack('/v1/messages/count_tokens'));
  // No node serves the stack, but requests that routing refuses count towards the limit too.
  expect(counts).toEqual([404, 404, 404, 429]);
  roomInMinute(clock, id);
  const messages: number[] = [];
  for (let n = 0; n < 4; n++) messages.push(await ofStack('/v1/messages'));
  expect(messages).toEqual([404, 404, 404, 429]);
});

test('Limits 1, Errors 9: Retry-After is exactly the rest of the window, after which it is open again', async () => {
  const { id, key } = await callerOn('Minutely');
  for (let i = 0; i < 3; i++) expect((await ask(key)).status).toBe(200);
  const endMs = windowStartMs(id, clock.now()) + windowMs;
  for (const leftMs of [endMs - clock.now(), 14_500, 1900, 900]) {
    clock.advanceMs(endMs - leftMs - clock.now());
    const most = Math.ceil((endMs - clock.now()) / 1000);
    const answer = await ask(key);
    const least = Math.ceil((endMs - clock.now()) / 1000);
    expectRefusal(answer, 'InferenceRateLimitedError');
    const seconds = Number(answer.fields['retry-after']);
    expect(seconds).toBeLessThanOrEqual(most);
    expect(seconds).toBeGreaterThanOrEqual(Math.max(1, least));
  }
  clock.advanceMs(endMs - clock.now());
  for (let i = 0; i < 3; i++) expect((await ask(key)).status).toBe(200);
  expectRefusal(await ask(key), 'InferenceRateLimitedError');
});

test('Limits 1: requests refused by a limit do not count, but requests refused by routing do', async () => {
  const { key } = await callerOn('Minutely');
  const statuses: number[] = [];
  for (const request of [
    () => ask(key, 'echo-small', { nonsense: 1 }),
    () => ask('nonsense'),
    () => ask(key, 'no-such-model'),
    () => chat({ port, key, model: 'echo-small', host: stackHost('missing') }),
    () => ask(key),
    () => ask(key),
  ])
    statuses.push((await request()).status);
  expect(statuses).toEqual([400, 401, 404, 404, 200, 429]);
});

test('Limits 1: the listing does not count', async () => {
  const { key } = await callerOn('Never');
  for (let i = 0; i < 5; i++) expect((await call({ port, key })).status).toBe(200);
  expectRefusal(await ask(key), 'InferenceRateLimitedError');
});

test('Limits 1: another key of the same organisation counts, but another organisation’s requests do not', async () => {
  const { id, key } = await callerOn('Minutely');
  const other = await callerOn('Minutely');
  const { value: second } = await fleet.key(id);
  await fleet.settle();
  for (let i = 0; i < 3; i++) await ask(key);
  expectRefusal(await ask(second), 'InferenceRateLimitedError');
  expect((await ask(other.key)).status).toBe(200);
});

async function heldAt(key: string, model = 'echo-small', stream = false): Promise<Held> {
  const node = fleet.nodes['pool-1'];
  node.setBehaviour(spoil(stream ? { kind: 'stall-after', afterEvents: 2 } : { kind: 'stall' }));
  const held = await hold({ port, key, model, more: { stream }, at: node });
  node.setBehaviour(healthy);
  return held;
}

/** Expects that no request is in flight: exactly the whole concurrency must be available. */
async function expectFree(key: string): Promise<void> {
  await expect
    .poll(async () => (await ask(key, 'echo-large')).status, { interval: 10, timeout: 5000 })
    .toBe(200);
  const held = await heldAt(key, 'echo-large');
  expectRefusal(await ask(key), 'InferenceConcurrencyLimitedError');
  held.leave();
}

test('Limits 2: one gateway allows exactly the tier’s concurrency, by weight', async () => {
  const { key } = await callerOn('Slim');
  const held: Held[] = [];
  for (let i = 0; i < 4; i++) held.push(await heldAt(key));
  expectRefusal(await ask(key), 'InferenceConcurrencyLimitedError');
  held.pop()?.leave();
  await expect.poll(async () => (await ask(key)).status, { interval: 10, timeout: 5000 }).toBe(200);
  expectRefusal(await ask(key, 'echo-large'), 'InferenceConcurrencyLimitedError');
  for (const one of held) one.leave();
  await expectFree(key);
});

/** Every way in which a request can end, each with a check that it did. */
const endings: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
  answered: async (key) => expect((await ask(key)).status).toBe(200),
  streamed: async (key) =>
    expect((await ask(key, 'echo-small', { stream: true })).content).toContain('data: [DONE]'),
  embedded: async (key) => {
    const body = { model: 'echo-embed', input: 'a' };
    expect((await call({ port, key, method: 'POST', path: '/v1/embeddings', body })).status).toBe(200);
  },
  'left before the answer': async (key) => {
    const held = await heldAt(key);
    expect(held.received()).toBe('');
    held.leave();
    await held.closed;
  },
  'left within the stream': async (key) => {
    const held = await heldAt(key, 'echo-small', true);
    await vi.waitUntil(() => held.received().includes('data: {'), { interval: 2, timeout: 5000 });
    held.leave();
    await held.closed;
  },
  'spoilt by the node': async (key) =>
    expectRefusal(await spoiltBy(key, { kind: 'status', status: 500 }), 'InferenceUnavailableError'),
  'cut by the node': async (key) => {
    const { status, whole, content } = await spoiltBy(key, { kind: 'cut', afterEvents: 2 });
    expect({ status, whole }).toEqual({ status: 200, whole: false });
    expect(content).not.toContain('[DONE]');
  },
  'reset by the node': async (key) =>
    expectRefusal(await spoiltBy(key, { kind: 'refuse' }), 'InferenceUnavailableError'),
  'refused by the engine': async (key) =>
    expectRefusal(await spoiltBy(key, { kind: 'status', status: 400 }), 'UnsupportedShapeError'),
  'refused by routing': async (key) => expectRefusal(await ask(key, 'echo-bare'), 'DedicatedOnlyModelError'),
  'refused by shape': async (key) =>
    expectRefusal(await ask(key, 'echo-small', { nonsense: 1 }), 'UnsupportedShapeError'),
  'refused by the count': async (key) => {
    const counts = (): number => fleet.nodes['pool-1'].stats().requestsByPath['/tokenize'] ?? 0;
    const before = counts();
    const messages = [{ role: 'user', content: 'b'.repeat(40_000) }];
    expectRefusal(await ask(key, 'echo-small', { messages }), 'ContextWindowExceededError');
    expect(counts()).toBe(before + 1);
  },
  'too heavy': async (key) => {
    const held = await heldAt(key);
    expectRefusal(await ask(key, 'echo-large'), 'InferenceConcurrencyLimitedError');
    held.leave();
    await held.closed;
  },
};
async function spoiltBy(key: string, fault: object): Promise<Answer> {
  fleet.nodes['pool-1'].setBehaviour(spoil(fault));
  const answer = await ask(key, 'echo-small', { stream: true });
  fleet.nodes['pool-1'].setBehaviour(healthy);
  return answer;
}

test.each(Object.keys(endings))(
  'Limits 2, Errors 10: a request that was %s releases its place exactly once',
  async (ending) => {
    const { key } = await callerOn('Slim');
    // Another request stays in flight, because a slot that is released twice would free that request's slot.
    const node = fleet.nodes['pool-1'];
    const other = await heldAt(key);
    for (let i = 0; i < 5; i++) {
      await endings[ending]?.(key);
      await vi.waitUntil(() => node.stats().inFlight === 1, { interval: 2, timeout: 5000 });
    }
    const rest: Held[] = [];
    for (let i = 0; i < 3; i++) rest.push(await heldAt(key));
    expectRefusal(await ask(key), 'InferenceConcurrencyLimitedError');
    for (const held of [other, ...rest]) held.leave();
    await expectFree(key);
  },
);

test('Limits 2: after any sequence of endings, the whole concurrency is free again', async () => {
  const { key } = await callerOn('Slim');
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...Object.keys(endings)), { maxLength: 8 }),
      async (sequence) => {
        for (const ending of sequence) {
          await endings[ending]?.(key);
          await vi.waitUntil(() => fleet.nodes['pool-1'].stats().inFlight === 0, {
            interval: 2,
            timeout: 5000,
          });
        }
        await expectFree(key);
      },
    ),
    { numRuns: runs({ fast: 4, full: 10 }) },
  );
});

test('Limits 2, Errors 10: a model heavier than the tier’s concurrency takes all of it and runs alone', async () => {
  const { key } = await callerOn('Tight');
  expect((await ask(key, 'echo-large')).status).toBe(200);
  const held = await heldAt(key);
  const { message } = expectRefusal(await ask(key, 'echo-large'), 'InferenceConcurrencyLimitedError');
  expect(message).toBe(
    'The Tight tier allows 2 requests in flight. A request for echo-large counts as 4, so it takes all of them. Try again once the requests in flight have finished.',
  );
  held.leave();
  await held.closed;
  await vi.waitUntil(async () => (await ask(key, 'echo-large')).status === 200, {
    interval: 5,
    timeout: 5000,
  });
  const heavy = await heldAt(key, 'echo-large');
  expectRefusal(await ask(key), 'InferenceConcurrencyLimitedError');
  heavy.leave();
  await heavy.closed;
});

test('Limits 2, Errors 4: a tier without the heavy model refuses for that, and a tier of none allows none', async () => {
  const { key } = await callerOn('Tightest');
  for (let i = 0; i < 3; i++) expectRefusal(await ask(key, 'echo-large'), 'ModelNotInPlanError');
  const shut = await callerOn('Shut');
  for (const model of models) expectRefusal(await ask(shut.key, model), 'InferenceConcurrencyLimitedError');
});

/** Returns a prompt with this many tokens. The simulated node counts 3 per message and one per 4 bytes. */
const prompt = (tokens: number) => ({ messages: [{ role: 'user', content: 'abcd'.repeat(tokens - 3) }] });

test.each([
  { promptTokens: 50, max: 50, fits: true },
  { promptTokens: 50, max: 51, fits: false },
  { promptTokens: 99, max: undefined, fits: true },
  { promptTokens: 100, max: undefined, fits: false },
  { promptTokens: 99, max: 1, fits: true },
  { promptTokens: 99, max: 2, fits: false },
  { promptTokens: 10, max: 101, fits: false },
])(
  'Limits 3, Errors 8: whether $promptTokens tokens plus $max requested fit a context of 100: $fits',
  async ({ promptTokens, max, fits }) => {
    const { key } = await callerOn('Narrow');
    const more = { ...prompt(promptTokens), ...(max !== undefined && { max_tokens: max }) };
    const answer = await ask(key, 'echo-small', more);
    if (fits) expect(answer.status).toBe(200);
    else {
      const { message } = expectRefusal(answer, 'ContextWindowExceededError');
      const [, atLeast, said] = /a context of (at least )?(\d+) tokens/.exec(message) ?? [];
      const needed = promptTokens + (max ?? 1);
      if (atLeast === undefined) expect(Number(said)).toBe(needed);
      else expect(Number(said)).toBeLessThanOrEqual(needed);
      expect(Number(said)).toBeGreaterThan(100);
    }
  },
);

test('Limits 4: completed pool requests use up the allowance, and the next period renews it', async () => {
  const { id, key } = await callerOn('Thrifty');
  let used = 0;
  while (used < 50) {
    const answer = await ask(key);
    expect(answer.status).toBe(200);
    used += JSON.parse(answer.content).usage.total_tokens;
  }
  expectRefusal(await ask(key), 'InferenceUpsellError');
  clock.advanceMs(32 * dayMs);
  roomInMinute(clock, id);
  expect((await ask(key)).status).toBe(200);
});

test('Limits 4: an unfinished request uses nothing of the allowance', async () => {
  const { key } = await callerOn('Thrifty');
  for (let i = 0; i < 10; i++) await endings['cut by the node']?.(key);
  for (let i = 0; i < 3; i++) await endings['left within the stream']?.(key);
  expect((await ask(key)).status).toBe(200);
});

test('Limits 4: the allowance holds over all gateways soon after it is used up', async () => {
  const { key } = await callerOn('Thrifty');
  for (let i = 0; i < 3; i++) await ask(key);
  const other = () => chat({ port: fleet.port(1), key, model: 'echo-small' });
  await vi.waitUntil(async () => (await other()).status === 409, { interval: 20, timeout: 5000 });
  for (let i = 0; i < 3; i++) expectRefusal(await other(), 'InferenceUpsellError');
});

test('Limits 5: every gateway refuses a revoked key with the bytes for an unknown key', async () => {
  const { id, value } = await fleet.key('acme');
  await fleet.settle();
  const list = (key: string, gateway: number) =>
    rawRequest(
      fleet.port(gateway),
      requestText({ host: stackHost('otter'), headers: { Authorization: `Bearer ${key}` } }),
    );
  for (const gateway of [0, 1]) expect((await list(value, gateway)).status).toBe(200);
  await fleet.admin.call('POST', `/keys/${id}/revoke`);
  await fleet.settle();
  const unknown = comparable(
    await list(
      mintKey((bytes) => Buffer.alloc(bytes, 3)),
      0,
    ),
  );
  expect(unknown).toContain('401 Unauthorized');
  for (const gateway of [0, 1]) expect(comparable(await list(value, gateway))).toBe(unknown);
});

test('Limits 5: a key revoked while its request’s body arrives is refused once the body is complete', async () => {
  const { id, value } = await fleet.key('acme');
  await fleet.settle();
  const body = JSON.stringify(chatBody('echo-small'));
  const peer = await RawPeer.open({ host: '127.0.0.1', port, tls: false });
  const headers = {
    Authorization: `Bearer ${value}`,
    'Content-Type': 'application/json',
    'Content-Length': `${body.length}`,
    Expect: '100-continue',
  };
  await peer.send(requestText({ method: 'POST', path: '/v1/chat/completions', headers }));
  // A `100 Continue` means that the key was accepted and the gateway now asks for the body.
  expect(await peer.received(/ 100 Continue/)).toBe(true);
  await fleet.admin.call('POST', `/keys/${id}/revoke`);
  await fleet.settle();
  clock.advanceMs(5000);
  await peer.send(body);
  await peer.closed;
  expect(statusesIn(peer.text)).toEqual([100, 401]);
});

test('Limits 5, Authentication 3, Authentication 8: a gateway without recent proof judges no key until it has a new one', async () => {
  const cautious = await startFleet({ fleet: specFleet, gateway: { intervals: { proveMs } } });
  try {
    const at = { port: cautious.port(), host: stackHost('otter') };
    const { value: key } = await cautious.key('acme');
    await cautious.settle();
    const never = mintKey((bytes) => Buffer.alloc(bytes, 5));
    const { id, value: revoked } = await cautious.key('acme');
    await cautious.admin.call('POST', `/keys/${id}/revoke`);
    await cautious.settle();
    const readiness = async () => {
      const response = await fetch(new URL('/readyz?verbose', cautious.gateways[0]?.metrics));
      return { ok: response.ok, text: await response.text() };
    };
    const onShared = { model: 'echo-small', port: at.port };
    await untilProven(cautious);
    expect((await call({ ...at, key })).status).toBe(200);
    clock.sleepMs(46_000);
    const fenced = await Promise.all([
      chat({ ...onShared, key }),
      chat({ ...onShared, key: never }),
      call({ ...at, key }),
      chat({ ...onShared, key: `${key}x` }),
      chat({ ...onShared, key: 'nonsense' }),
      chat({ ...onShared, key: revoked }),
      call({ ...at, headers: { 'x-api-key': 'nonsense' } }),
      call({ ...at, host: stackHost('missing'), key: 'nonsense' }),
      chat(onShared),
      chat({ ...onShared, headers: { 'x-api-key': key } }),
      call(at),
      call({ port: at.port }),
    ]);
    expect((await readiness()).ok).toBe(false);
    const messages = fenced
      .slice(0, 8)
      .map((answer) => expectRefusal(answer, 'InferenceUnavailableError').message);
    expect(new Set(messages).size, 'one answer, whatever the credential is').toBe(1);
    expect(messages[0], 'nodes have no part in it').not.toMatch(/node/i);
    for (const answer of fenced.slice(8, 11)) expectRefusal(answer, 'Unauthorized');
    expect(fenced.slice(11).map(({ status }) => status)).toEqual([200]);
    await untilReady(cautious);
    expect((await call({ ...at, key })).status).toBe(200);
    expectRefusal(await call({ ...at, key: never }), 'Unauthorized');
  } finally {
    await cautious.close();
  }
});

/** Interval between freshness proofs, in ms. It is long enough for a test to act between two proofs. */
const proveMs = 1200;

/** Waits until the gateway's last freshness proof is recent, so that the next is some time away. */
async function untilProven(of: TestFleet): Promise<void> {
  const verbose = new URL('/readyz?verbose', of.gateways[0]?.metrics);
  await vi.waitUntil(async () => /ready, 0\.[0-3]/.test(await (await fetch(verbose)).text()), {
    interval: 20,
    timeout: 10_000,
  });
}

test('Limits 5: a proof that becomes too old while a body arrives or is counted no longer holds', async () => {
  const cautious = await startFleet({
    gateway: { intervals: { proveMs } },
    fleet: (urls) => ({
      ...specFleet(urls),
      tiers: [
        { id: 'Starter', contextTokens: 100, models },
        { id: 'Pro', models },
        { id: 'Platinum', models: '*' },
      ],
    }),
  });
  const node = cautious.nodes['pool-1'];
  const asked = (path: string): number => node.stats().requestsByPath[path] ?? 0;
  try {
    const { value: key } = await cautious.key('cedar');
    await cautious.settle();
    const post = (body: string, more = {}) =>
      requestText({
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { Authorization: `Bearer ${key}`, ...more },
        body,
      });
    const body = JSON.stringify(chatBody('echo-small'));
    const whole = post(body, { Expect: '100-continue' });
    // Each row contains how long the process sleeps before the request, and how long after its key was accepted. The rows
    // differ in whether the key must be looked up again.
    for (const [beforeMs, duringMs] of [
      [0, 46_000],
      [44_300, 800],
    ] as const) {
      await untilProven(cautious);
      clock.sleepMs(beforeMs);
      const late = await new Promise<string>((resolve, reject) => {
        let received = '';
        const socket = connect(cautious.port(), '127.0.0.1', () =>
          socket.write(whole.slice(0, -body.length)),
        );
        socket.on('data', (chunk) => {
          if (received === '') {
            clock.sleepMs(duringMs);
            socket.write(body);
          }
          received += chunk.toString('latin1');
        });
        socket.on('error', reject).on('close', () => resolve(received));
      });
      expect(late).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 503 /);
      expect(late).toContain('InferenceUnavailableError');
      expect(asked('/v1/chat/completions') + asked('/tokenize')).toBe(0);
      await untilReady(cautious);
    }

    node.setBehaviour(
      parseBehaviour({
        rules: [{ match: { path: '/tokenize' }, fault: { kind: 'slow-loris', part: 'body', everyMs: 1 } }],
      }),
    );
    await untilProven(cautious);
    const messages = [{ role: 'user', content: 'b'.repeat(200) }];
    const counted = rawRequest(cautious.port(), post(JSON.stringify({ model: 'echo-small', messages })));
    await vi.waitUntil(() => asked('/tokenize') === 1, { interval: 2, timeout: 5000 });
    clock.advanceMs(46_000);
    const { status, body: text } = await counted;
    expect({ status, type: JSON.parse(text).error.type }).toEqual({
      status: 503,
      type: 'InferenceUnavailableError',
    });
    expect(asked('/v1/chat/completions')).toBe(0);
  } finally {
    await cautious.close();
  }
});

test('Limits 8: the next tier is the one above in the order of tiers, which an operator can change', async () => {
  const { key } = await callerOn('Thrifty');
  for (let i = 0; i < 3; i++) await ask(key);
  const before = expectRefusal(await ask(key), 'InferenceUpsellError').message;
  await fleet.admin.call('DELETE', '/tiers/Spare');
  await fleet.settle();
  const after = expectRefusal(await ask(key), 'InferenceUpsellError').message;
  expect(before).toMatch(/Thrifty.*Spare/);
  expect(after).toMatch(/Thrifty.*Platinum/);
});
