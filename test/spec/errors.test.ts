/**
 * Tests the chapter "Errors" of the specification: each condition, the content of its message, and which refusal is sent if
 * several apply.
 */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, call, chat, expectRefusal, refusalOf } from '../support/api.ts';
import { roomInMinute, takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { type Held, hold } from '../support/held.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { askedDuring } from '../support/witness.ts';

const clock = takeClock();
let fleet: TestFleet;
let port: number;
let acme: string;
const healthy = parseBehaviour({});

/** One tier for each kind of limit, and one tier with all limits. */
const tiers = [
  { id: 'Narrow', contextTokens: 100 },
  { id: 'Minutely', requestsPerMinute: 1 },
  { id: 'Slim', concurrency: 4 },
  { id: 'Thrifty', monthlyTokens: 1 },
  { id: 'All', contextTokens: 100, monthlyTokens: 2, requestsPerMinute: 2, concurrency: 1 },
] as const;
type TierName = (typeof tiers)[number]['id'] | 'Platinum';

beforeAll(async () => {
  fleet = await startFleet({
    gateway: { whenStale: 'serve' },
    fleet: (urls) => ({
      ...specFleet(urls),
      tiers: [
        { id: 'Starter', models: ['echo-small'] },
        { id: 'Pro', models: ['echo-small', 'echo-large', 'echo-embed', 'echo-idle'] },
        ...tiers.map((tier) => ({ ...tier, models: ['echo-small', 'echo-large', 'echo-idle'] })),
        { id: 'Platinum', monthlyTokens: 1, models: '*' },
      ],
    }),
  });
  port = fleet.port();
  acme = (await fleet.key('acme')).value;
  await fleet.settle();
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});
afterEach(() => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(healthy);
});

let organisations = 0;
/** Creates a key for a new organisation on the tier, so that requests of other tests do not count towards its limits. */
async function keyOn(tier: TierName | 'Pro' | 'Starter'): Promise<string> {
  const id = `caller-${++organisations}`;
  await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
  const { value } = await fleet.key(id);
  await fleet.settle();
  roomInMinute(clock, id);
  return value;
}

const ask = (key: string, model = 'echo-small', more = {}): Promise<Answer> =>
  chat({ port, key, model, more });

/** Sends the request that uses up the allowance of one token. */
async function useUp(key: string): Promise<void> {
  expect((await ask(key)).status).toBe(200);
}

async function heldAt(key: string, model = 'echo-small'): Promise<Held> {
  const node = fleet.nodes['pool-1'];
  node.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
  const held = await hold({ port, key, model, at: node });
  node.setBehaviour(healthy);
  return held;
}

const tooLong = { max_tokens: 101 };

test('Errors 2: the refusal of a field names its path but not its value', async () => {
  const more = { temperature: 'my secret prompt' };
  const { message } = expectRefusal(await ask(acme, 'echo-small', more), 'UnsupportedShapeError');
  expect(message).toContain('temperature');
  expect(message).not.toContain('secret');
});

test('Errors 3: the refusal is temporary: once a node answers, so does the service', async () => {
  const key = await keyOn('Pro');
  const drain = async (how: string): Promise<void> => {
    await fleet.admin.call('POST', `/nodes/pool-1/${how}?force=true`);
    await fleet.settle();
  };
  await drain('drain');
  const away = await ask(key);
  await drain('undrain');
  expectRefusal(away, 'InferenceUnavailableError');
  expect((await ask(key)).status).toBe(200);
});

test.each([
  ['a tier', 'echo-small'],
  ['a tier, for a model of its own node', 'echo-private'],
  ['a tier, for an unknown model', 'no-such-model'],
])('Errors 4: an organisation without %s is 403', async (_what, model) => {
  const { value } = await fleet.key('dormant');
  await fleet.settle();
  const answers = [
    await ask(value, model),
    await ask(value, model, { max_tokens: 1e9 }),
    await chat({ port, key: value, model, host: stackHost('moth') }),
    await chat({ port, key: value, model, host: stackHost('otter') }),
  ];
  const messages = answers.map((answer) => expectRefusal(answer, 'ModelNotInPlanError').message);
  expect(new Set(messages).size).toBe(1);
});

test('Errors 5: a model outside the pool is 404 on the shared host, whether it exists or not', async () => {
  const key = await keyOn('Pro');
  const answers = await Promise.all(
    ['echo-bare', 'echo-private', 'no-such-model'].map((model) => ask(key, model)),
  );
  const errors = answers.map((answer) => expectRefusal(answer, 'DedicatedOnlyModelError'));
  for (const error of errors) expect(error).toEqual(errors[0]);
});

test('Errors 5: a model only on a stack is reached at that stack’s hostname', async () => {
  await fleet.admin.call('DELETE', '/pool/models/echo-embed');
  await fleet.settle();
  const embed = (host: string) =>
    call({
      port,
      host,
      key: acme,
      method: 'POST',
      path: '/v1/embeddings',
      body: { model: 'echo-embed', input: 'a' },
    });
  const shared = await embed('127.0.0.1');
  const listing = await call({ port });
  const stack = await embed(stackHost('otter'));
  await fleet.admin.call('PUT', '/pool/models/echo-embed');
  await fleet.settle();
  expectRefusal(shared, 'DedicatedOnlyModelError');
  expect(listing.content).not.toContain('echo-embed');
  expect(stack.status).toBe(200);
});

test('Errors 6: a stack host that does not serve the model is 404, with the same message for every cause', async () => {
  const messages = [];
  for (const stack of ['idle', 'heron', 'missing'] as const) {
    const answer = await chat({ port, key: acme, model: 'echo-small', host: stackHost(stack) });
    messages.push(expectRefusal(answer, 'TargetNotServingError').message);
  }
  expect(new Set(messages).size).toBe(1);
});

test('Errors 7, Limits 4: a used-up allowance is 409 and names the tier and the next one, but no time', async () => {
  const key = await keyOn('Thrifty');
  await useUp(key);
  const answer = await ask(key);
  const { message } = expectRefusal(answer, 'InferenceUpsellError');
  expect(message).toContain('Thrifty');
  expect(message, 'the next in the order of the file that allows more').toContain('The next tier is All.');
  expect(answer.fields).not.toHaveProperty('retry-after');
});

test('Errors 7, Limits 8: callers on the top tier are asked to contact the operator', async () => {
  const key = await keyOn('Platinum');
  await useUp(key);
  const { message } = expectRefusal(await ask(key), 'InferenceUpsellError');
  expect(message).toMatch(/Platinum.*contact the service operator/i);
});

test('Errors 7, Limits 4: own nodes and stacks do not use up the allowance, and continue without it', async () => {
  expect((await ask(acme, 'echo-large')).status).toBe(200);
  expectRefusal(await ask(acme, 'echo-large'), 'InferenceUpsellError');
  for (const [model, host] of [
    ['echo-private', '127.0.0.1'],
    ['echo-small', '127.0.0.1'],
    ['echo-large', stackHost('otter')],
  ] as const)
    expect((await chat({ port, key: acme, model, host })).status).toBe(200);
});

test('Errors 8: more context than the tier allows is 413, names the tier and both numbers, and is permanent', async () => {
  const key = await keyOn('Narrow');
  for (let i = 0; i < 2; i++) {
    const answer = await ask(key, 'echo-small', tooLong);
    const { message } = expectRefusal(answer, 'ContextWindowExceededError');
    expect(message).toMatch(/\b1\d\d tokens.*Narrow.*\b100\b/);
    expect(answer.fields).not.toHaveProperty('retry-after');
  }
});

test('Errors 9: more requests in a minute than the tier allows is 429 with the remaining seconds', async () => {
  const key = await keyOn('Minutely');
  await ask(key);
  const answer = await ask(key);
  const { message } = expectRefusal(answer, 'InferenceRateLimitedError');
  expect(message).toContain('Minutely');
  const seconds = answer.fields['retry-after'] ?? '';
  expect(seconds).toMatch(/^\d+$/);
  expect(Number(seconds)).toBeGreaterThanOrEqual(1);
  expect(Number(seconds)).toBeLessThanOrEqual(60);
});

test('Errors 10: more concurrency than the tier allows is 429 with one second, and gives a heavy model’s weight', async () => {
  const key = await keyOn('Slim');
  const held = [await heldAt(key), await heldAt(key), await heldAt(key)];
  const heavy = await ask(key, 'echo-large');
  const light = await ask(key);
  held.push(await heldAt(key));
  const full = await ask(key);
  for (const one of held) one.leave();
  expect(light.status).toBe(200);
  for (const answer of [heavy, full]) expect(answer.fields['retry-after']).toBe('1');
  const words = (answer: Answer): string => expectRefusal(answer, 'InferenceConcurrencyLimitedError').message;
  expect(words(heavy)).toMatch(/Slim.*echo-large counts as 4/);
  expect(words(full)).toContain('Slim');
  expect(words(full)).not.toContain('counts as');
});

test.each([
  ['Narrow', 'ContextWindowExceededError', 'echo-small'],
  ['Thrifty', 'InferenceUpsellError', 'echo-small'],
  ['Minutely', 'InferenceRateLimitedError', 'echo-small'],
  ['Slim', 'InferenceConcurrencyLimitedError', 'echo-large'],
] as const)(
  'Errors further rule 1: on %s the gateway answers %s before routing, asks no node and names the tier',
  async (tier, type, model) => {
    const key = await keyOn(tier);
    const held = tier === 'Slim' ? await heldAt(key) : undefined;
    if (tier === 'Thrifty' || tier === 'Minutely') await useUp(key);
    const asked = await askedDuring(fleet, async () => {
      const more = tier === 'Narrow' ? tooLong : {};
      expect(expectRefusal(await ask(key, model, more), type).message).toContain(tier);
    });
    held?.leave();
    expect(asked).toEqual({});
  },
);

test('Errors further rule 1: router refusals reveal no tier, node, organisation or model', async () => {
  const key = await keyOn('Pro');
  const refusals = [
    await ask(key, 'echo-idle'),
    await ask(await keyOn('Starter'), 'echo-large'),
    await ask(key, 'echo-private'),
    await chat({ port, key, model: 'echo-small', host: stackHost('otter') }),
  ].map(refusalOf);
  expect(refusals.map(({ type }) => type)).toEqual([
    'InferenceUnavailableError',
    'ModelNotInPlanError',
    'DedicatedOnlyModelError',
    'TargetNotServingError',
  ]);
  for (const { message } of refusals)
    expect(message).not.toMatch(/Starter|Pro\b|echo-|acme|caller-|pool-1|stk-|127\.0/);
});

test('Errors further rule 2: no response has limit headers, and only the two 429 refusals have Retry-After', async () => {
  const minutely = await keyOn('Minutely');
  const thrifty = await keyOn('Thrifty');
  const slim = await keyOn('Slim');
  const held = await heldAt(slim);
  const answers = [
    await ask(minutely),
    await ask(minutely),
    await ask(thrifty),
    await ask(thrifty),
    await ask(slim, 'echo-large'),
    await ask(await keyOn('Narrow'), 'echo-small', tooLong),
    await ask(slim, 'echo-small', { stream: true }),
    await ask(slim, 'echo-idle'),
    await ask('nonsense'),
    await call({ port }),
  ];
  held.leave();
  expect(answers.map(({ status }) => status)).toEqual([200, 429, 200, 409, 429, 413, 200, 503, 401, 200]);
  for (const { status, fields } of answers) {
    expect(
      Object.keys(fields).filter((name) => /limit|remaining|quota|reset|retry-after-ms/.test(name)),
    ).toEqual([]);
    expect(fields['retry-after'] !== undefined).toBe(status === 429);
  }
});

/**
 * Each request fails the checks that the previous request failed, and often an earlier one too, so the refusals show the
 * order of the checks.
 */
test('Errors 4, Errors 7, Errors 8, Errors 9, Errors 10: a temporary refusal never hides a permanent one', async () => {
  const key = await keyOn('All');
  const held = await heldAt(key);
  const types: RefusalType[] = [];
  const see = async (answer: Promise<Answer>): Promise<void> => {
    types.push(refusalOf(await answer).type);
  };
  const bad = { ...tooLong, nonsense: 1 };
  const elsewhere = (model: string, more = {}) =>
    chat({ port, key, model, more, host: stackHost('missing') });
  // One request is in flight, which is the limit on concurrency. No other limit is reached.
  await see(ask(key));
  await see(ask(key, 'no-such-model'));
  await see(elsewhere('echo-small'));
  held.leave();
  await expect.poll(async () => (await ask(key)).status, { interval: 20, timeout: 5000 }).toBe(200);
  // Two requests were made this minute, which is the limit on requests. The allowance is used up, too.
  await see(ask(key, 'no-such-model'));
  await see(elsewhere('echo-small'));
  await see(ask(key));
  await see(ask(key, 'echo-idle'));
  await see(ask(key, 'echo-small', tooLong));
  await see(elsewhere('echo-small', tooLong));
  await see(ask(key, 'echo-small', bad));
  await see(ask('nonsense', 'echo-small', bad));
  expect(types).toEqual([
    'InferenceConcurrencyLimitedError',
    'InferenceConcurrencyLimitedError',
    'InferenceConcurrencyLimitedError',
    'InferenceRateLimitedError',
    'InferenceRateLimitedError',
    'InferenceUpsellError',
    'InferenceUpsellError',
    'ContextWindowExceededError',
    'ContextWindowExceededError',
    'UnsupportedShapeError',
    'Unauthorized',
  ]);
});

test('Errors 1, Errors 3: each type’s status and retry in the specification’s table are those on the wire', async () => {
  const specification = readFileSync(new URL('../../docs/specification.md', import.meta.url), 'utf8');
  const rows = [...specification.matchAll(/^\| (\w+) \| (\d{3}) \| (No|Yes)[^|]*\|/gm)].map(
    ([, type = '', status, retry]) => [type, Number(status), retry === 'Yes'] as const,
  );
  expect(rows).toHaveLength(10);
  for (const [type, status, retry] of rows) {
    const kind = refusalKinds[type as RefusalType];
    expect([kind.status, kind.retry !== 'never'], type).toEqual([status, retry]);
  }
  const key = await keyOn('Pro');
  const minutely = await keyOn('Minutely');
  const slim = await keyOn('Slim');
  const thrifty = await keyOn('Thrifty');
  await useUp(minutely);
  await useUp(thrifty);
  const held = await heldAt(slim);
  const answers: readonly Answer[] = [
    await ask('nonsense'),
    await ask(key, 'echo-small', { nonsense: 1 }),
    await ask(key, 'echo-idle'),
    await ask(await keyOn('Starter'), 'echo-large'),
    await ask(key, 'no-such-model'),
    await chat({ port, key, model: 'echo-small', host: stackHost('missing') }),
    await ask(thrifty),
    await ask(await keyOn('Narrow'), 'echo-small', tooLong),
    await ask(minutely),
    await ask(slim, 'echo-large'),
  ];
  held.leave();
  for (const [index, [type, status, retry]] of rows.entries()) {
    const answer = answers[index] as Answer;
    expect([refusalOf(answer).type, answer.status]).toEqual([type, status]);
    expect(answer.fields['x-should-retry'] === undefined, type).toBe(retry);
  }
});
