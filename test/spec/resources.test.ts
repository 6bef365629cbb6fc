/**
 * Tests the chapters "Resources and their fields" and "States and transitions" of the specification: stacks, keys, listing
 * entries, and the error envelope.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RefusalType } from '../../schemas/api/refusals.ts';
import { type Answer, call, chat, chatBody, expectRefusal, refusalOf } from '../support/api.ts';
import { takeClock, untilReady } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';

const clock = takeClock();
let fleet: TestFleet;
let port: number;
let acme: string;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  port = fleet.port();
  acme = (await fleet.key('acme')).value;
  await fleet.settle();
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});

test('Stack 1: a new stack gets an identifier of the promised shape, which is its host’s first label', async () => {
  const { id } = await fleet.admin.call('POST', '/stacks', { organisation: 'acme' });
  expect(id).toMatch(/^stk-[a-z]+-[a-z]+-[a-z0-9]+$/);
  await fleet.settle();
  const listing = await call({ port, key: acme, host: `${id}.stacks.test` });
  expect(listing.status).toBe(200);
  expect(JSON.parse(listing.content).data).toEqual([]);
});

test.each([
  'stk-amber-otter',
  'stk-amber-otter-9k2f-x',
  'stk-Amber1-otter-9k2f',
  'stk_amber_otter_9k2f',
  'amber-otter-9k2f',
  'stk--otter-9k2f',
])('Stack 1: the label %s does not name a stack', async (label) => {
  expectRefusal(await call({ port, key: acme, host: `${label}.stacks.test` }), 'NotFoundError');
});

test('Stack 2: a stack uses the OpenAI-style API unless it is created or switched otherwise', async () => {
  const made = await fleet.admin.call('POST', '/stacks', { organisation: 'acme' });
  expect(made.surface).toBe('openai');
  const path = `/stacks/${made.id}/surface`;
  const { value: key } = await fleet.key('acme');
  /**
   * Sends a request of each API to a stack that serves nothing, and returns the answers. The gateway looks for a node only if
   * the API is the stack's own.
   */
  const spoken = async (): Promise<string[]> => {
    await fleet.settle();
    const body = { ...chatBody('echo-small'), max_tokens: 5 };
    const at = { port, key, host: `${made.id}.stacks.test`, method: 'POST', body };
    const answers = [
      await call({ ...at, path: '/v1/chat/completions' }),
      await call({ ...at, path: '/v1/messages' }),
    ];
    return answers.map((answer) => refusalOf(answer).type);
  };
  expect(await spoken()).toEqual(['TargetNotServingError', 'UnsupportedShapeError']);
  for (const surface of ['anthropic', 'openai']) {
    expect((await fleet.admin.call('PUT', path, { surface }))['surface']).toBe(surface);
    const types = ['TargetNotServingError', 'UnsupportedShapeError'];
    expect(await spoken()).toEqual(surface === 'openai' ? types : types.reverse());
  }
  await expect(fleet.admin.call('PUT', path, { surface: 'other' })).rejects.toThrow();
});

test('API key 1, Authentication 11: keys share one prefix and one length, and end in a checksum', async () => {
  const values: string[] = [];
  for (let i = 0; i < 5; i++) values.push((await fleet.key('acme')).value);
  expect(new Set(values.map(({ length }) => length)).size).toBe(1);
  for (const value of values) expect(value).toMatch(/^hg_[0-9A-Za-z]{40}$/);
  await fleet.settle();
  const [first = ''] = values;
  const host = stackHost('otter');
  expect((await call({ port, key: first, host })).status).toBe(200);
  // Changing any single character of the key's body invalidates the checksum in the key.
  for (let at = 3; at < first.length; at += 6) {
    const changed = first.slice(0, at) + (first[at] === 'a' ? 'b' : 'a') + first.slice(at + 1);
    expectRefusal(await call({ port, key: changed, host }), 'Unauthorized');
  }
});

test('API key 2, Limits 6: a key has a name and one of four choices of expiry', async () => {
  for (const expires of ['never', '30d', '90d', '1y'])
    expect(
      await fleet.admin.call('POST', '/keys', { organisation: 'acme', name: 'ci', expires }),
    ).toMatchObject({
      name: 'ci',
      expires,
    });
  for (const body of [
    { expires: '30d' },
    { name: 'ci' },
    { name: 'ci', expires: '31d' },
    { name: '', expires: '1y' },
  ])
    await expect(fleet.admin.call('POST', '/keys', { organisation: 'acme', ...body })).rejects.toThrow();
});

test('API key 3: a key resolves only to its organisation; a user or scope in the request changes nothing', async () => {
  const bare = await chat({ port, key: acme, model: 'echo-private' });
  const dressed = await chat({
    port,
    key: acme,
    model: 'echo-private',
    more: { user: 'vic' },
    headers: { 'x-headgate-as': 'vic', 'x-scope': 'read-only' },
  });
  const content = (answer: Answer): unknown => JSON.parse(answer.content).choices;
  expect([bare.status, dressed.status]).toEqual([200, 200]);
  expect(content(dressed)).toEqual(content(bare));
});

test('Model listing entry 1, Model listing entry 2: entries contain identifier, family and creation time', async () => {
  const { object, data } = JSON.parse((await call({ port })).content);
  expect(object).toBe('list');
  const entry = data.find(({ id }: { id: string }) => id === 'echo-small');
  expect(entry).toEqual({
    id: 'echo-small',
    object: 'model',
    type: 'model',
    family: 'echo',
    created: Date.parse('2026-01-02T03:04:05Z') / 1000,
    created_at: '2026-01-02T03:04:05Z',
    display_name: 'echo-small',
    owned_by: 'echo',
  });
  for (const other of data) {
    expect(Object.keys(other)).toEqual(Object.keys(entry));
    expect(Number.isSafeInteger(other.created)).toBe(true);
  }
});

/** One request for each refusal that this fleet can give. Limits have their own test file. */
const refusals: Partial<Record<RefusalType, () => Promise<Answer>>> = {
  Unauthorized: () => call({ port, method: 'POST', path: '/v1/embeddings?a=b' }),
  UnsupportedShapeError: () => chat({ port, key: acme, model: 'echo-small', more: { top_k: 1 } }),
  InferenceUnavailableError: () => chat({ port, key: acme, model: 'echo-idle' }),
  DedicatedOnlyModelError: () => call({ port, path: '/v1/models/echo-private?x' }),
  TargetNotServingError: () => chat({ port, key: acme, model: 'echo-small', host: stackHost('otter') }),
  NotFoundError: () => call({ port, key: acme, path: '/v1/completions?x=/y' }),
};

test.each([
  ['Unauthorized', '/v1/embeddings'],
  ['UnsupportedShapeError', '/v1/chat/completions'],
  ['InferenceUnavailableError', '/v1/chat/completions'],
  ['DedicatedOnlyModelError', '/v1/models/echo-private'],
  ['TargetNotServingError', '/v1/chat/completions'],
  ['NotFoundError', '/v1/completions'],
] as const)('Error envelope: %s has code, type, message, status and the refused path', async (type, path) => {
  const error = refusalOf(await (refusals[type] as () => Promise<Answer>)());
  expect(error).toMatchObject({ type, path });
  expect(error.message.length).toBeGreaterThan(10);
  expect(Number.isInteger(error.status)).toBe(true);
});

test('States 1: a key is active until it is revoked, and then stays revoked', async () => {
  const { id, value } = await fleet.key('acme');
  const state = async () => (await fleet.admin.call('GET', `/keys/${id}`)).state;
  await fleet.settle();
  expect([await state(), (await call({ port, key: value, host: stackHost('otter') })).status]).toEqual([
    'active',
    200,
  ]);
  for (let i = 0; i < 2; i++) {
    await fleet.admin.call('POST', `/keys/${id}/revoke`);
    await fleet.settle();
    expect(await state()).toBe('revoked');
    expectRefusal(await call({ port, key: value, host: stackHost('otter') }), 'Unauthorized');
  }
});

test('States 1: a key is active until its expiry, and expired from then on', async () => {
  const { id, value } = await fleet.key('acme', '30d');
  const state = async () => (await fleet.admin.call('GET', `/keys/${id}`)).state;
  const ask = () => call({ port, key: value, host: stackHost('otter') });
  await fleet.settle();
  expect([await state(), (await ask()).status]).toEqual(['active', 200]);
  clock.advanceMs(30 * 24 * 60 * 60 * 1000 + 1000);
  await untilReady(fleet);
  expect(await state()).toBe('expired');
  expectRefusal(await ask(), 'Unauthorized');
});

test('States 2: a stack serves a model from its installation until it is uninstalled', async () => {
  const host = stackHost('heron');
  const { value: key } = await fleet.key('birch');
  const path = '/stacks/stk-quiet-heron-4m7q/models/echo-small';
  const ask = async (): Promise<number> =>
    (
      await call({
        port,
        key,
        host,
        method: 'POST',
        path: '/v1/chat/completions',
        body: chatBody('echo-small'),
      })
    ).status;
  await fleet.settle();
  const seen = [await ask()];
  for (const method of ['DELETE', 'PUT'] as const) {
    await fleet.admin.call(method, path);
    await fleet.settle();
    seen.push(await ask());
  }
  expect(seen).toEqual([200, 404, 200]);
});
