/**
 * Specification, "Unauthorized ... identical answer for all" and "TargetNotServingError ... byte-identical on the wire":
 * whole answers are compared byte by byte, but for date and request id. No probe may learn more than these two answers say.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseBehaviour } from '../../node/sim/behaviour.ts';
import { mintKey } from '../../shared/api-key.ts';
import { chatBody } from '../support/api.ts';
import { roomInMinute, takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { comparable, type RequestParts, rawRequest, requestText } from '../support/raw-http.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';

const clock = takeClock();
const shared = '127.0.0.1';
/** An own stack that serves, an own one that does not, a foreign one, one that does not exist. */
const stackHosts = [stackHost('otter'), stackHost('idle'), stackHost('heron'), stackHost('missing')];
/** The last three of them: not serving echo-small for acme, for three reasons. */
const notServing = stackHosts.slice(1);
let fleet: TestFleet;
let acme: string;
let birch: string;
let badKeys: Record<string, string | undefined>;

beforeAll(async () => {
  fleet = await startFleet({
    gateway: { whenStale: 'serve' },
    fleet: (urls) => ({
      ...specFleet(urls),
      tiers: [
        { id: 'Starter', models: ['echo-small'] },
        { id: 'Pro', models: ['echo-small', 'echo-large'] },
        { id: 'Platinum', models: '*', contextTokens: 2000, requestsPerMinute: 100_000 },
      ],
    }),
  });
  const revoked = await fleet.key('acme');
  await fleet.admin.call('POST', `/keys/${revoked.id}/revoke`);
  const expired = (await fleet.key('acme', '30d')).value;
  clock.advanceMs(31 * 24 * 60 * 60 * 1000);
  acme = (await fleet.key('acme')).value;
  birch = (await fleet.key('birch')).value;
  await fleet.settle();
  badKeys = {
    missing: undefined,
    empty: '',
    malformed: 'let-me-in',
    truncated: acme.slice(0, -1),
    'of a wrong checksum': acme.slice(0, -1) + (acme.endsWith('0') ? '1' : '0'),
    unknown: mintKey((bytes) => Buffer.alloc(bytes, 11)),
    revoked: revoked.value,
    expired,
  };
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});

async function ask(parts: RequestParts): Promise<string> {
  return comparable(await rawRequest(fleet.port(), requestText(parts)));
}

const chatPath = '/v1/chat/completions';
const small = JSON.stringify(chatBody('echo-small'));
const paths = [chatPath, '/v1/models', '/v1/models/echo-small', '/v1/messages', '/unknown?x=1', '/'];

test.each(['GET', 'POST', 'OPTIONS', 'HEAD', 'DELETE'])(
  'Errors 1, Authentication 8, Endpoints rule 4: 401 of %s has one form, whatever fails on whatever host',
  async (method) => {
    for (const path of paths) {
      const isPublic = method === 'GET' && path.startsWith('/v1/models');
      const hosts = isPublic ? stackHosts : [shared, ...stackHosts];
      const answers = new Map<string, string>();
      for (const [why, key] of Object.entries(badKeys))
        for (const host of hosts)
          for (const body of [undefined, '', small, '{"model":']) {
            const headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
            const parts = { method, path, host, headers, ...(body !== undefined && { body }) };
            answers.set(await ask(parts), `${method} ${path} with a key ${why} at ${host}, body ${body}`);
          }
      expect([...answers.values()], 'distinct answers').toHaveLength(1);
      const [answer = ''] = [...answers.keys()];
      expect(answer).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
      if (method !== 'HEAD') expect(answer).toContain(`"path":"${path.split('?')[0]}"`);
    }
  },
);

test('Errors 1: the answer is the same on a connection that stays open', async () => {
  const answers = new Set<string>();
  for (const [, key = ''] of Object.entries(badKeys))
    for (const host of [shared, ...stackHosts]) {
      const first = `POST ${chatPath} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nContent-Length: 2\r\n\r\n{}`;
      const last = requestText({ path: '/v1/models' });
      const both = await rawRequest(fleet.port(), first + last);
      answers.add(comparable(both).split('HTTP/1.1 200')[0] ?? '');
    }
  expect([...answers]).toHaveLength(1);
  expect([...answers][0]).toMatch(/^HTTP\/1\.1 401 /);
});

test.each([
  ['nobody', undefined],
  ["another organisation's key", 'birch'],
  ['the own key', 'acme'],
] as const)(
  'Authentication 2, Errors 1: x-api-key from %s tells nothing of a stack that speaks the OpenAI-style API',
  async (_who, whose) => {
    const key = whose === 'birch' ? birch : acme;
    const headers = whose === undefined ? {} : { 'x-api-key': key };
    for (const path of ['/v1/models', '/v1/messages', chatPath]) {
      const answers = new Set<string>();
      for (const host of stackHosts) answers.add(await ask({ path, host, headers }));
      expect([...answers]).toHaveLength(1);
      expect([...answers][0]).toMatch(/^HTTP\/1\.1 401 /);
    }
  },
);

test("Authentication 2, Errors 1: another organisation's x-api-key is not told whether a stack is switched or exists", async () => {
  await fleet.admin.call('PUT', `/stacks/${stacks.idle}/surface`, { surface: 'anthropic' });
  await fleet.settle();
  const answers = new Set<string>();
  for (const host of stackHosts)
    for (const headers of [{ 'x-api-key': birch }, { 'x-api-key': 'hg_nonsense' }, {}] as const)
      answers.add(await ask({ method: 'POST', path: '/v1/messages', host, headers, body: '{}' }));
  // The heron is birch's own, but speaks the OpenAI-style API.
  await fleet.admin.call('PUT', `/stacks/${stacks.idle}/surface`, { surface: 'openai' });
  await fleet.settle();
  expect([...answers]).toHaveLength(1);
});

/** The answers of acme's request at three hosts that do not serve it, which must be one. */
async function oneAnswer(parts: Omit<RequestParts, 'host'>, hosts = notServing): Promise<string> {
  const answers = new Map<string, string>();
  for (const host of hosts)
    answers.set(
      await ask({ ...parts, host, headers: { Authorization: `Bearer ${acme}`, ...parts.headers } }),
      host,
    );
  expect([...answers.values()], 'distinct answers').toHaveLength(1);
  return [...answers.keys()][0] ?? '';
}

const post = (path: string, body: unknown) => ({
  method: 'POST',
  path,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

test.each([
  ['a chat completion', post(chatPath, chatBody('echo-small')), 'TargetNotServingError'],
  ['a stream', post(chatPath, chatBody('echo-small', { stream: true })), 'TargetNotServingError'],
  ['an unknown model', post(chatPath, chatBody('no-such-model')), 'TargetNotServingError'],
  ['a model of the pool only', post(chatPath, chatBody('echo-large')), 'TargetNotServingError'],
  ['a model outside of the catalog', post(chatPath, chatBody('echo-bare')), 'TargetNotServingError'],
  ['embeddings', post('/v1/embeddings', { model: 'echo-embed', input: 'a' }), 'TargetNotServingError'],
  ['one model of the listing', { path: '/v1/models/echo-small' }, 'TargetNotServingError'],
  ['an unknown path', { path: '/v1/nothing' }, 'NotFoundError'],
  ['OPTIONS', { method: 'OPTIONS', path: chatPath }, 'NotFoundError'],
  ['broken JSON', post(chatPath, '{"model":'), 'UnsupportedShapeError'],
  ['an unknown field', post(chatPath, chatBody('echo-small', { nonsense: 1 })), 'UnsupportedShapeError'],
  ['too much context', post(chatPath, chatBody('m', { max_tokens: 2000 })), 'ContextWindowExceededError'],
] as const)(
  'Errors 6: %s is answered alike by an own stack not serving, a foreign and a missing one',
  async (_what, parts, type) => {
    expect(await oneAnswer(parts)).toContain(`"type":"${type}"`);
  },
);

test('Errors 6: an own stack that serves other models is not told apart either', async () => {
  const answer = await oneAnswer(post(chatPath, chatBody('echo-small')), stackHosts);
  expect(answer).toContain('"type":"TargetNotServingError"');
});

test('Errors 6: a stack whose nodes are away, and one whose node fails, answer the same bytes', async () => {
  const parts = post(chatPath, chatBody('echo-large'));
  const truth = await oneAnswer(parts);
  fleet.nodes['acme-s1'].setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'refuse' } }] }));
  const failing = await oneAnswer(parts, [stackHost('otter')]);
  fleet.nodes['acme-s1'].setBehaviour(parseBehaviour({}));
  await fleet.admin.call('POST', '/nodes/acme-s1/drain');
  await fleet.settle();
  const drained = await oneAnswer(parts, [stackHost('otter')]);
  await fleet.admin.call('POST', '/nodes/acme-s1/undrain');
  await fleet.settle();
  expect([failing, drained]).toEqual([truth, truth]);
});

test('Errors 6: requests of every size and length of answer are answered alike', async () => {
  const types = new Set<string>();
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 9000 }),
      fc.option(fc.integer({ min: 1, max: 3000 }), { nil: undefined }),
      fc.boolean(),
      async (characters, maxTokens, stream) => {
        const body = {
          ...chatBody('echo-small', { stream, ...(maxTokens !== undefined && { max_tokens: maxTokens }) }),
          messages: [{ role: 'user', content: 'x '.repeat(characters / 2) }],
        };
        const answer = await oneAnswer(post(chatPath, body));
        types.add(/"type":"(\w+)"/.exec(answer)?.[1] ?? answer);
      },
    ),
    {
      numRuns: 40,
      examples: [
        [10, undefined, false],
        [9000, 3000, true],
        [1990, undefined, false],
      ],
    },
  );
  expect([...types].sort()).toEqual(['ContextWindowExceededError', 'TargetNotServingError']);
});

test('Errors 6: also where the minute is used up, alike', async () => {
  const tier = (requestsPerMinute: number) =>
    fleet.admin.call('PUT', '/tiers/Platinum', { models: '*', contextTokens: 2000, requestsPerMinute });
  await tier(1);
  await fleet.settle();
  roomInMinute(clock, 'acme');
  const answers = new Set<string>();
  try {
    // The one request a minute, which the three hosts below then find used up.
    await ask({ ...post(chatPath, chatBody('echo-small')), headers: { Authorization: `Bearer ${acme}` } });
    for (const body of [chatBody('echo-small'), chatBody('no-such-model')])
      answers.add((await oneAnswer(post(chatPath, body))).replace(/\d+( seconds)|(retry-after): \d+/g, ''));
  } finally {
    await tier(100_000);
    await fleet.settle();
  }
  expect([...answers]).toHaveLength(1);
  expect([...answers][0]).toContain('"type":"InferenceRateLimitedError"');
});

test('Errors 6: the listing of a foreign stack is that of a missing one', async () => {
  const hosts = [stackHost('heron'), stackHost('missing')];
  for (const path of ['/v1/models', '/v1/models?limit=1', '/v1/models/echo-small'])
    expect(await oneAnswer({ path }, hosts)).toContain('"type":"TargetNotServingError"');
});

test('Errors 6: the Anthropic-style paths tell nothing of a foreign stack', async () => {
  const hosts = [stackHost('heron'), stackHost('moth'), stackHost('missing')];
  const body = { ...chatBody('echo-small'), max_tokens: 5 };
  for (const path of ['/v1/messages', '/v1/messages/count_tokens']) await oneAnswer(post(path, body), hosts);
});

test('Errors 6: on the Anthropic-style paths an own stack not serving, a foreign and a missing one are alike', async () => {
  await fleet.admin.call('PUT', `/stacks/${stacks.idle}/surface`, { surface: 'anthropic' });
  await fleet.settle();
  const body = { ...chatBody('echo-small'), max_tokens: 5 };
  const answers = [
    await oneAnswer(post('/v1/messages', body)),
    await oneAnswer(post('/v1/messages', { ...body, stream: true })),
    await oneAnswer(post('/v1/messages', { ...body, max_tokens: 3000 })),
    await oneAnswer(post('/v1/messages/count_tokens', chatBody('echo-small'))),
  ];
  await fleet.admin.call('PUT', `/stacks/${stacks.idle}/surface`, { surface: 'openai' });
  await fleet.settle();
  expect(answers.map((answer) => /"type":"(\w+)"/.exec(answer)?.[1])).toEqual([
    'TargetNotServingError',
    'TargetNotServingError',
    'ContextWindowExceededError',
    'TargetNotServingError',
  ]);
});
