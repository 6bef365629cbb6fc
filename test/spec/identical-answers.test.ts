/**
 * Tests two rules of the specification: "Unauthorized ... identical answer for all" and "TargetNotServingError ...
 * byte-identical on the wire". Compares whole answers byte by byte, except for date and request id, so that no probe can
 * learn more than the two answers say.
 */
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { mintKey } from '../../shared/ids/api-key.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { chatBody } from '../support/api.ts';
import { roomInMinute, takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { comparable, type RequestParts, rawRequest, requestText } from '../support/raw-http.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';

const clock = takeClock();
const shared = '127.0.0.1';
/**
 * Hosts of acme's serving stack, of acme's stack that does not serve, of another organisation's stack, and of a stack that
 * does not exist.
 */
const stackHosts = [stackHost('otter'), stackHost('idle'), stackHost('heron'), stackHost('missing')];
/** Hosts that do not serve echo-small to acme, each for a different reason. */
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

/** Expects that all answers were identical. The map contains each distinct answer with the last request that got it. */
function expectOne(answers: ReadonlyMap<string, string>): void {
  expect(answers.size, `distinct answers: ${JSON.stringify([...answers], null, 2)}`).toBe(1);
}

async function ask(parts: RequestParts): Promise<string> {
  return comparable(await rawRequest(fleet.port(), requestText(parts)));
}

const chatPath = '/v1/chat/completions';
const small = JSON.stringify(chatBody('echo-small'));
const messagesPath = '/v1/messages';
const countPath = '/v1/messages/count_tokens';
const paths = [chatPath, '/v1/models', '/v1/models/echo-small', messagesPath, countPath, '/unknown?x=1', '/'];

test.each(['GET', 'POST', 'OPTIONS', 'HEAD', 'DELETE'])(
  'Errors 1, Authentication 8, Endpoints rule 4: the 401 of %s has one form, whatever fails on any host',
  async (method) => {
    for (const path of paths) {
      const isPublic = (method === 'GET' || method === 'HEAD') && path.startsWith('/v1/models');
      const bodies = method === 'POST' ? [undefined, '', small, '{"model":'] : [undefined, small];
      const hosts = isPublic ? stackHosts : [shared, ...stackHosts];
      const answers = new Map<string, string>();
      for (const [why, key] of Object.entries(badKeys))
        for (const host of hosts)
          for (const body of bodies) {
            const headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
            const parts = { method, path, host, headers, ...(body !== undefined && { body }) };
            answers.set(await ask(parts), `${method} ${path} with a key ${why} at ${host}, body ${body}`);
          }
      expectOne(answers);
      const [answer = ''] = [...answers.keys()];
      expect(answer).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
      if (method !== 'HEAD') expect(answer).toContain(`"path":"${path.split('?')[0]}"`);
    }
  },
);

test('Errors 1: the answer is the same on a connection kept open', async () => {
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
  ['the organisation’s own key', 'acme'],
] as const)(
  'Authentication 2, Errors 1: x-api-key with %s reveals nothing about an OpenAI-style stack',
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

let switched: Promise<unknown> = Promise.resolve();
// A test that timed out keeps running. Wait until it has switched its stacks back, because the next test would otherwise get
// different answers.
afterEach(() => switched.catch(() => undefined));

/** Switches three stacks to the Anthropic API while `act` runs: one of acme's and two of other organisations. */
function whileSwitched<T>(act: () => Promise<T>): Promise<T> {
  const acted = actSwitched(act);
  switched = acted;
  return acted;
}

async function actSwitched<T>(act: () => Promise<T>): Promise<T> {
  const set = async (surface: string): Promise<void> => {
    for (const stack of [stacks.idle, stacks.heron, stacks.moth])
      await fleet.admin.call('PUT', `/stacks/${stack}/surface`, { surface });
    await fleet.settle();
  };
  await set('anthropic');
  try {
    return await act();
  } finally {
    await set('openai');
  }
}

const everyPath = [...paths, '/v1/embeddings', '/v1/messages/batches', '/v1/messages?beta=true'];

test.each(['GET', 'POST'])(
  'Authentication 2, Errors 1: the 401 of %s by x-api-key has one form on every kind of stack',
  async (method) => {
    await whileSwitched(async () => {
      for (const path of everyPath) {
        const answers = new Map<string, string>();
        const note = async (why: string, host: string, headers: Record<string, string>): Promise<void> => {
          const parts = { method, path, host, headers, ...(method === 'POST' && { body: small }) };
          answers.set(await ask(parts), `${method} ${path} with ${why} at ${host}`);
        };
        const hosts = [...stackHosts, stackHost('moth')];
        for (const host of hosts) {
          await note('nothing', host, {});
          for (const [why, key] of Object.entries(badKeys))
            if (key !== undefined) await note(`a key ${why}`, host, { 'x-api-key': key });
          await note('a bad key with a bad bearer', host, { 'x-api-key': 'a', Authorization: 'Bearer b' });
          // These keys are valid, but the stack belongs to someone else or does not use the Anthropic API.
          if (host !== stackHost('idle')) await note('a key of acme', host, { 'x-api-key': acme });
          if (host !== stackHost('heron')) await note('a key of birch', host, { 'x-api-key': birch });
        }
        expectOne(answers);
        expect([...answers.keys()][0]).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
      }
    });
  },
);

test('Authentication 2: beside a valid bearer token, an x-api-key that does not count changes nothing', async () => {
  await whileSwitched(async () => {
    for (const path of [messagesPath, countPath, chatPath, '/v1/models'])
      for (const host of [stackHost('heron'), stackHost('missing'), stackHost('otter')]) {
        const method = path === '/v1/models' ? 'GET' : 'POST';
        const answers = new Set<string>();
        // Birch's key is valid on birch's own stack. There the request has two valid keys, which differ, so it counts as
        // having none.
        const others = host === stackHost('heron') ? [] : [birch];
        for (const key of [undefined, acme, 'hg_nonsense', ...others]) {
          const headers = { Authorization: `Bearer ${acme}`, ...(key !== undefined && { 'x-api-key': key }) };
          answers.add(await ask({ method, path, host, headers, body: small }));
        }
        expect(answers.size, `${path} at ${host}`).toBe(1);
        expect([...answers][0]).not.toMatch(/^HTTP\/1\.1 401/);
      }
  });
});

/** Removes the remaining seconds of the minute, because they decrease from one request to the next. */
const withoutSeconds = (answer: string): string =>
  answer.replace(/\d+( seconds)|(retry-after): \d+/gi, '$1$2');

/** Sends acme's request to the hosts that do not serve it, expects identical answers and returns the answer. */
async function oneAnswer(parts: Omit<RequestParts, 'host'>, hosts = notServing): Promise<string> {
  const answers = new Map<string, string>();
  for (const host of hosts)
    answers.set(
      withoutSeconds(
        await ask({ ...parts, host, headers: { Authorization: `Bearer ${acme}`, ...parts.headers } }),
      ),
      host,
    );
  expectOne(answers);
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
  ['a model only in the pool', post(chatPath, chatBody('echo-large')), 'TargetNotServingError'],
  ['a model outside the catalogue', post(chatPath, chatBody('echo-bare')), 'TargetNotServingError'],
  ['embeddings', post('/v1/embeddings', { model: 'echo-embed', input: 'a' }), 'TargetNotServingError'],
  ['one listed model', { path: '/v1/models/echo-small' }, 'TargetNotServingError'],
  ['an unknown path', { path: '/v1/nothing' }, 'NotFoundError'],
  ['OPTIONS', { method: 'OPTIONS', path: chatPath }, 'NotFoundError'],
  ['broken JSON', post(chatPath, '{"model":'), 'UnsupportedShapeError'],
  ['an unknown field', post(chatPath, chatBody('echo-small', { nonsense: 1 })), 'UnsupportedShapeError'],
  ['too much context', post(chatPath, chatBody('m', { max_tokens: 2000 })), 'ContextWindowExceededError'],
] as const)(
  'Errors 6: %s gets the same answer from an own stack not serving, a foreign and a missing one',
  async (_what, parts, type) => {
    expect(await oneAnswer(parts)).toContain(`"type":"${type}"`);
  },
);

test('Errors 6: an own stack that serves other models cannot be distinguished either', async () => {
  const answer = await oneAnswer(post(chatPath, chatBody('echo-small')), stackHosts);
  expect(answer).toContain('"type":"TargetNotServingError"');
});

test('Errors 6: a stack whose nodes are away and one whose node fails answer with the same bytes', async () => {
  const parts = post(chatPath, chatBody('echo-large'));
  const truth = await oneAnswer(parts);
  fleet.nodes['acme-s1'].setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'refuse' } }] }));
  const failing = await oneAnswer(parts, [stackHost('otter')]);
  fleet.nodes['acme-s1'].setBehaviour(parseBehaviour({}));
  await fleet.admin.call('POST', '/nodes/acme-s1/drain?force=true');
  await fleet.settle();
  const drained = await oneAnswer(parts, [stackHost('otter')]);
  await fleet.admin.call('POST', '/nodes/acme-s1/undrain');
  await fleet.settle();
  expect([failing, drained]).toEqual([truth, truth]);
});

test('Errors 6: requests of every size and answer length get the same answer', async () => {
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

test('Errors 6: they get the same answer even when the minute is used up', async () => {
  const tier = (requestsPerMinute: number) =>
    fleet.admin.call('PUT', '/tiers/Platinum', { models: '*', contextTokens: 2000, requestsPerMinute });
  await tier(1);
  await fleet.settle();
  roomInMinute(clock, 'acme');
  const answers = new Set<string>();
  try {
    // Uses up the one request per minute before the loop tries the hosts.
    await ask({ ...post(chatPath, chatBody('echo-small')), headers: { Authorization: `Bearer ${acme}` } });
    for (const body of [chatBody('echo-small'), chatBody('no-such-model')])
      answers.add(await oneAnswer(post(chatPath, body)));
  } finally {
    await tier(100_000);
    await fleet.settle();
  }
  expect([...answers]).toHaveLength(1);
  expect([...answers][0]).toContain('"type":"InferenceRateLimitedError"');
});

test('Errors 6: a foreign stack’s listing equals a missing one’s', async () => {
  const hosts = [stackHost('heron'), stackHost('missing')];
  for (const path of ['/v1/models', '/v1/models?limit=1', '/v1/models/echo-small'])
    expect(await oneAnswer({ path }, hosts)).toContain('"type":"TargetNotServingError"');
});

const message = (more: object = {}) => ({ ...chatBody('echo-small'), max_tokens: 5, ...more });
const older = { 'anthropic-version': '2023-06-01' };
const foreignRequests: readonly (readonly [string, Omit<RequestParts, 'host'>, string])[] = [
  ['a message', post(messagesPath, message()), 'TargetNotServingError'],
  ['a streamed message', post(messagesPath, message({ stream: true })), 'TargetNotServingError'],
  ['a message of Claude Code', post(`${messagesPath}?beta=true`, message()), 'TargetNotServingError'],
  ['a message by its version', { ...post(messagesPath, message()), headers: older }, 'TargetNotServingError'],
  ['an unknown model', post(messagesPath, message({ model: 'no-such-model' })), 'TargetNotServingError'],
  ['a count', post(countPath, chatBody('echo-small')), 'TargetNotServingError'],
  ['a chat completion', post(chatPath, chatBody('echo-small')), 'TargetNotServingError'],
  ['embeddings', post('/v1/embeddings', { model: 'echo-embed', input: 'a' }), 'TargetNotServingError'],
  ['the listing', { path: '/v1/models' }, 'TargetNotServingError'],
  ['one listed model', { path: '/v1/models/echo-small' }, 'TargetNotServingError'],
  ['too much context', post(messagesPath, message({ max_tokens: 3000 })), 'ContextWindowExceededError'],
  ['an unknown field', post(messagesPath, message({ nonsense: 1 })), 'UnsupportedShapeError'],
  ['a field of the other shape', post(messagesPath, message({ n: 1 })), 'UnsupportedShapeError'],
  ['a message without a limit', post(messagesPath, chatBody('echo-small')), 'UnsupportedShapeError'],
  ['broken JSON', post(messagesPath, '{"model":'), 'UnsupportedShapeError'],
  ['a broken count', post(countPath, '[]'), 'UnsupportedShapeError'],
  [
    'an unknown version',
    { ...post(messagesPath, message()), headers: { 'anthropic-version': '1999-01-01' } },
    'UnsupportedShapeError',
  ],
  ['another path below messages', post('/v1/messages/batches', message()), 'NotFoundError'],
  ['another method', { path: messagesPath }, 'NotFoundError'],
  ['the root, as Claude Code looks at it', { method: 'HEAD', path: '/' }, ''],
];

test('Errors 6: any request gets the same bytes from a foreign and a missing stack, whatever its API', async () => {
  const hosts = [stackHost('heron'), stackHost('moth'), stackHost('missing')];
  const answers = async (): Promise<Map<string, string>> => {
    const found = new Map<string, string>();
    for (const [what, parts] of foreignRequests) found.set(what, await oneAnswer(parts, hosts));
    return found;
  };
  const unswitched = await answers();
  expect(await whileSwitched(answers)).toEqual(unswitched);
  for (const [what, , type] of foreignRequests) {
    if (type !== '') expect(unswitched.get(what), what).toContain(`"type":"${type}"`);
  }
});

test('Errors 6: on Anthropic-style paths, an own stack not serving, a foreign and a missing one are alike', async () => {
  await fleet.admin.call('PUT', `/stacks/${stacks.idle}/surface`, { surface: 'anthropic' });
  await fleet.settle();
  const body = { ...chatBody('echo-small'), max_tokens: 5 };
  const answers = [
    await oneAnswer(post(messagesPath, body)),
    await oneAnswer(post(messagesPath, { ...body, stream: true })),
    await oneAnswer(post(messagesPath, { ...body, max_tokens: 3000 })),
    await oneAnswer(post(countPath, chatBody('echo-small'))),
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
