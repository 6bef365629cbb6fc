/** Tests the chapter "Authentication" of the specification. The tests move the clock to make keys expire. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mintKey } from '../../shared/ids/api-key.ts';
import { type Call, call, chat, expectRefusal } from '../support/api.ts';
import { askAdmin } from '../support/ask-admin.ts';
import { takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { rawRequest } from '../support/raw-http.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { askedDuring } from '../support/witness.ts';

const clock = takeClock();
const dayMs = 24 * 60 * 60 * 1000;
const shared = '127.0.0.1';
let fleet: TestFleet;
let port: number;
let acme: string;
let birch: string;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet, gateway: { whenStale: 'serve' } });
  port = fleet.port();
  acme = (await fleet.key('acme')).value;
  birch = (await fleet.key('birch')).value;
  await fleet.settle();
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});

/** Lists the models of acme's stack. The call needs a key but does not reach a node. */
const listing = (parts: Omit<Call, 'port'>) => call({ port, host: stackHost('otter'), ...parts });

test.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])(
  'Authentication 1: the key is accepted as a bearer token with the scheme spelled "%s"',
  async (scheme) => {
    expect((await listing({ headers: { Authorization: `${scheme} ${acme}` } })).status).toBe(200);
  },
);

test.each([
  (key: string) => key,
  (key: string) => `Basic ${Buffer.from(`:${key}`).toString('base64')}`,
  (key: string) => `Token ${key}`,
  (key: string) => `Bearer${key}`,
  (key: string) => `Bearer "${key}"`,
  (key: string) => `Bearer ${key} ${key}`,
  (key: string) => `Bearer ${key},Bearer ${key}`,
  (key: string) => `Bearer Bearer ${key}`,
])('Authentication 1: no other form of the header is a key (%#)', async (form) => {
  expectRefusal(await listing({ headers: { Authorization: form(acme) } }), 'Unauthorized');
});

test.each([
  (key: string): Partial<Call> => ({ path: `/v1/models?key=${key}` }),
  (key: string): Partial<Call> => ({ path: `/v1/models?api_key=${key}&access_token=${key}` }),
  (key: string): Partial<Call> => ({ headers: { 'api-key': key } }),
  (key: string): Partial<Call> => ({ headers: { Cookie: `key=${key}` } }),
  (key: string): Partial<Call> => ({ headers: { 'Proxy-Authorization': `Bearer ${key}` } }),
])('Authentication 1: a key anywhere else is not accepted (%#)', async (place) => {
  expectRefusal(await listing(place(acme)), 'Unauthorized');
});

test.each([
  ['two different keys', (good: string, other: string) => [good, other], 401],
  ['a key and a wrong key', (good: string) => [good, 'x'], 401],
  ['a wrong key and a key', (good: string) => ['x', good], 401],
  ['the same key twice', (good: string) => [good, good], 401],
  ['an empty key and a key', (good: string) => ['', good], 200],
] as const)(
  'Authentication 1: with two Authorization headers, neither is accepted: %s',
  async (_what, keysOf, status) => {
    const lines = keysOf(acme, birch).map((key) => `Authorization: ${key && `Bearer ${key}`}`);
    const head = ['GET /v1/models HTTP/1.1', `Host: ${stackHost('otter')}`, ...lines, 'Connection: close'];
    expect((await rawRequest(port, `${head.join('\r\n')}\r\n\r\n`)).status).toBe(status);
  },
);

test('Authentication 2: x-api-key is a key only on an own stack switched to the Anthropic-style API', async () => {
  const send = (host: string, key: string) => call({ port, host, headers: { 'x-api-key': key } });
  const before = await send(stackHost('otter'), acme);
  await fleet.admin.call('PUT', `/stacks/${stacks.otter}/surface`, { surface: 'anthropic' });
  await fleet.settle();
  const switched = await send(stackHost('otter'), acme);
  const foreign = await send(stackHost('otter'), birch);
  const elsewhere = await send(stackHost('idle'), acme);
  const bearer = await listing({ key: acme });
  const both = await listing({ key: acme, headers: { 'x-api-key': acme } });
  const different = await listing({ key: birch, headers: { 'x-api-key': acme } });
  const foreignAsWell = await listing({ key: acme, headers: { 'x-api-key': birch } });
  const brokenAsWell = await listing({ key: acme, headers: { 'x-api-key': `${acme}x` } });
  const emptyAsWell = await listing({ key: acme, headers: { 'x-api-key': ' ' } });
  const noBearer = await listing({ headers: { Authorization: '', 'x-api-key': acme } });
  const onShared = await call({
    port,
    host: shared,
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { 'x-api-key': acme },
    body: {},
  });
  await fleet.admin.call('PUT', `/stacks/${stacks.otter}/surface`, { surface: 'openai' });
  await fleet.settle();
  expect([switched, bearer, both, emptyAsWell, noBearer].map(({ status }) => status)).toEqual(
    Array(5).fill(200),
  );
  for (const answer of [before, foreign, elsewhere, different, foreignAsWell, brokenAsWell, onShared])
    expectRefusal(answer, 'Unauthorized');
});

test('Authentication 3: a key that fails its checksum gets the same answer as an unknown key', async () => {
  const other = acme.endsWith('0') ? '1' : '0';
  const unknown = mintKey((bytes) => Buffer.alloc(bytes, 7));
  const truth = expectRefusal(await listing({ key: unknown }), 'Unauthorized');
  for (const wrong of [acme.slice(0, -1) + other, acme.slice(0, -1), `${acme}0`, acme.replace('hg_', 'gh_')])
    expect(expectRefusal(await listing({ key: wrong }), 'Unauthorized')).toEqual(truth);
});

test.each([
  { expires: '30d', days: 30 },
  { expires: '90d', days: 90 },
  { expires: '1y', days: 366 },
] as const)(
  'Authentication 4, Limits 6: a key with the choice $expires expires exactly on time',
  async ({ expires, days }) => {
    const madeMs = clock.now();
    const { id, value } = await fleet.key('acme', expires);
    await fleet.settle();
    const { expiresAt } = await fleet.admin.call('GET', `/keys/${id}`);
    const endMs = Date.parse(expiresAt ?? '');
    const livesMs = endMs - madeMs;
    expect(livesMs).toBeGreaterThan((days - 2) * dayMs);
    expect(livesMs).toBeLessThan(days * dayMs + 10_000);
    clock.advanceMs(endMs - clock.now() - 20_000);
    expect((await listing({ key: value })).status).toBe(200);
    clock.advanceMs(endMs - clock.now());
    expectRefusal(await listing({ key: value }), 'Unauthorized');
    expect((await listing({ key: acme })).status).toBe(200);
  },
);

test('Authentication 4, Limits 6: a key that never expires is still accepted years later', async () => {
  const { value } = await fleet.key('acme', 'never');
  await fleet.settle();
  clock.advanceMs(5 * 366 * dayMs);
  expect((await listing({ key: value })).status).toBe(200);
});

test('Authentication 4: the value is in the response to its creation and in no later one', async () => {
  const { id, value } = await fleet.key('acme');
  for (const path of [`/keys/${id}`, '/keys?organisation=acme', '/events'])
    expect(JSON.stringify(await fleet.admin.call('GET', path))).not.toContain(value);
});

test.each([
  ['owner', true],
  ['admin', true],
  ['approver', true],
  ['member', true],
  ['viewer', false],
])('Authentication 5: a person with the role %s may create and revoke keys: %s', async (role, may) => {
  const person = `is-${role}`;
  await fleet.admin.call('PUT', `/organisations/acme/members/${person}`, { role });
  const { id } = await fleet.key('acme');
  const as = async (path: string, body?: object): Promise<number> =>
    (await askAdmin(fleet.controlPlane.admin, path, { method: 'POST', body, as: person })).status;
  const created = await as('/keys', { organisation: 'acme', name: 'by a person', expires: 'never' });
  const elsewhere = await as('/keys', { organisation: 'birch', name: 'by a person', expires: 'never' });
  const revoked = await as(`/keys/${id}/revoke`);
  expect({ created, elsewhere, revoked }).toEqual(
    may ? { created: 200, elsewhere: 403, revoked: 200 } : { created: 403, elsewhere: 403, revoked: 403 },
  );
});

test("Authentication 6: revoking a person's access does not revoke the keys they made", async () => {
  const path = '/organisations/acme/members/leaver';
  await fleet.admin.call('PUT', path, { role: 'member' });
  const body = { organisation: 'acme', name: 'left behind', expires: 'never' };
  const response = await askAdmin(fleet.controlPlane.admin, '/keys', { body, as: 'leaver' });
  const { value } = (await response.json()) as { value: string };
  await fleet.admin.call('DELETE', path);
  await fleet.settle();
  expect((await listing({ key: value })).status).toBe(200);
});

test('Authentication 6: a key may do everything that the API allows for its organisation, and nothing for others', async () => {
  const asked = await askedDuring(fleet, async () => {
    expect((await listing({ key: acme })).status).toBe(200);
    expect((await chat({ port, key: acme, model: 'echo-private' })).status).toBe(200);
    expect((await chat({ port, key: acme, model: 'echo-large', host: stackHost('otter') })).status).toBe(200);
    const body = { model: 'echo-embed', input: 'one' };
    const embeddings = { port, key: acme, method: 'POST', path: '/v1/embeddings', body };
    expect((await call(embeddings)).status).toBe(200);
    const foreign = await chat({ port, key: acme, model: 'echo-small', host: stackHost('heron') });
    expectRefusal(foreign, 'TargetNotServingError');
  });
  expect(asked).toEqual({ 'acme-1': 1, 'acme-s1': 1, 'pool-1': 1 });
});

test.each([
  { method: 'POST', path: '/v1/chat/completions', host: shared },
  { method: 'POST', path: '/v1/embeddings', host: shared },
  { method: 'POST', path: '/v1/messages', host: shared },
  { method: 'POST', path: '/v1/models', host: shared },
  { method: 'HEAD', path: '/v1/models', host: stackHost('otter') },
  { method: 'GET', path: '/v1/models/', host: shared },
  { method: 'GET', path: '/', host: shared },
  { method: 'OPTIONS', path: '/v1/chat/completions', host: shared },
  { method: 'GET', path: '/v1/models', host: stackHost('otter') },
  { method: 'GET', path: '/v1/models/echo-large', host: stackHost('otter') },
  { method: 'POST', path: '/v1/chat/completions', host: stackHost('otter') },
  { method: 'OPTIONS', path: '/v1/models', host: stackHost('otter') },
  { method: 'GET', path: '/metrics', host: stackHost('otter') },
])('Authentication 7: $method $path needs a key on $host', async ({ method, path, host }) => {
  const answer = await call({ port, method, path, host });
  expect(answer.status).toBe(401);
});

test.each(['/v1/models', '/v1/models/echo-small', '/v1/models?limit=1'])(
  'Authentication 7: GET %s on the shared host needs no key and looks at none',
  async (path) => {
    const bare = await call({ port, path });
    expect(bare.status).toBe(200);
    for (const key of ['hg_nonsense', acme, birch])
      expect((await call({ port, path, key })).content).toBe(bare.content);
  },
);

test('Authentication 8: every failure of a key is 401 Unauthorized', async () => {
  const { id, value } = await fleet.key('acme');
  await fleet.admin.call('POST', `/keys/${id}/revoke`);
  await fleet.settle();
  const messages = [];
  for (const key of [undefined, '', 'x', value, mintKey((bytes) => Buffer.alloc(bytes, 9))])
    messages.push(expectRefusal(await listing(key === undefined ? {} : { key }), 'Unauthorized').message);
  expect(new Set(messages).size).toBe(1);
});

test('Authentication 8: a removed organisation’s key is not accepted', async () => {
  await fleet.admin.call('POST', '/organisations', { id: 'gone', name: 'Gone', tier: 'Pro' });
  const { value } = await fleet.key('gone');
  await fleet.settle();
  expect((await chat({ port, key: value, model: 'echo-small' })).status).toBe(200);
  await fleet.admin.call('DELETE', '/organisations/gone');
  await fleet.settle();
  expectRefusal(await chat({ port, key: value, model: 'echo-small' }), 'Unauthorized');
});

test.each([
  { organisation: 'cedar', model: 'echo-large', why: 'a tier without the model' },
  { organisation: 'dormant', model: 'echo-small', why: 'no tier' },
  { organisation: 'dormant', model: 'echo-private', why: 'no tier, but an own node' },
])(
  'Authentication 9: $why is 403 at routing, after the key was accepted',
  async ({ organisation, model }) => {
    const { value } = await fleet.key(organisation);
    await fleet.settle();
    expectRefusal(await chat({ port, key: value, model }), 'ModelNotInPlanError');
    expectRefusal(await chat({ port, key: `${value}x`, model }), 'Unauthorized');
  },
);

test('Authentication 9: a suspended organisation is refused like one without entitlement, until it is resumed', async () => {
  const { value } = await fleet.key('cedar');
  const suspend = async (suspended: boolean): Promise<void> => {
    await fleet.admin.call('PATCH', '/organisations/cedar', { suspended });
    await fleet.settle();
  };
  await suspend(true);
  const refused = await chat({ port, key: value, model: 'echo-small' });
  await suspend(false);
  const resumed = await chat({ port, key: value, model: 'echo-small' });
  expectRefusal(refused, 'ModelNotInPlanError');
  expect(resumed.status).toBe(200);
});

test('Authentication 10: an old and a new key both work until the old one is revoked', async () => {
  const old = await fleet.key('acme');
  const fresher = await fleet.key('acme');
  await fleet.settle();
  for (const { value } of [old, fresher]) expect((await listing({ key: value })).status).toBe(200);
  await fleet.admin.call('POST', `/keys/${old.id}/revoke`);
  await fleet.settle();
  expectRefusal(await listing({ key: old.value }), 'Unauthorized');
  expect((await listing({ key: fresher.value })).status).toBe(200);
});
