/**
 * Tests that members see only their own organisation's requests, in lists and streams of the admin API and of the console.
 * They must not see names of other organisations or of nodes. No response may contain a key, a prompt or a completion.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RequestList, RequestRow, RequestsMessage } from '../../schemas/admin/requests.ts';
import { requestListSchema, requestsMessageSchema } from '../../schemas/admin/requests.ts';
import { call, chat } from '../support/api.ts';
import { askAdmin } from '../support/ask-admin.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';

const canary = 'a-canary-of-the-prompt';
let fleet: TestFleet;
const keys: Record<string, { id: string; value: string }> = {};

beforeAll(async () => {
  const console = { bind: '127.0.0.1', port: 0, hosts: [], demo: true };
  fleet = await startFleet({ fleet: specFleet, gateways: 2, controlPlane: { console } });
  for (const [organisation, person] of [
    ['acme', 'ana'],
    ['birch', 'ben'],
  ] as const) {
    await fleet.admin.call('PUT', `/organisations/${organisation}/members/${person}`, { role: 'owner' });
    keys[organisation] = await fleet.key(organisation);
  }
  keys['revoked'] = await fleet.key('birch');
  await fleet.admin.call('POST', `/keys/${keys['revoked'].id}/revoke`);
  await fleet.settle();
  for (const gateway of [0, 1]) {
    const port = fleet.port(gateway);
    for (const organisation of ['acme', 'birch', 'revoked']) {
      const key = keys[organisation]?.value ?? '';
      await chat({ port, key, model: 'echo-small', more: { messages: [{ role: 'user', content: canary }] } });
    }
    // Uses a key at another organisation's stack, and keys of two organisations in one request.
    const [own, other] = [keys['acme']?.value ?? '', keys['birch']?.value ?? ''];
    await call({ port, key: own, path: '/v1/models', host: stackHost('heron') });
    await call({ port, key: own, path: '/v1/models', headers: { 'X-Api-Key': other } });
    await call({ port, key: canary, path: '/v1/models' });
  }
});
afterAll(() => fleet.close());

type Way = 'admin API' | 'console';
const cookies = new Map<string | undefined, string>();

/** Returns the cookie of the person's console session, or of the operator's session if no person is given. */
async function cookieOf(person: string | undefined): Promise<string> {
  const found = cookies.get(person);
  if (found !== undefined) return found;
  const base = fleet.controlPlane.console ?? '';
  const response = await fetch(`${base}/api/session`, {
    method: 'POST',
    headers: { origin: base, 'content-type': 'application/json' },
    body: JSON.stringify(person === undefined ? { operatorToken } : { demo: person }),
  });
  await response.text();
  const cookie = response.headers.get('set-cookie')?.split(';')[0] ?? '';
  cookies.set(person, cookie);
  return cookie;
}

async function request(path: string, person?: string, way: Way = 'admin API'): Promise<Response> {
  const { admin, console = '' } = fleet.controlPlane;
  if (way === 'console')
    return fetch(`${console}/api${path}`, { headers: { cookie: await cookieOf(person) } });
  return askAdmin(admin, path, { as: person });
}

async function read<Answer>(path: string, person?: string, way?: Way): Promise<Answer> {
  const response = await request(path, person, way);
  expect([path, response.status]).toEqual([path, 200]);
  return (await response.json()) as Answer;
}

async function firstOf(path: string, person?: string, way?: Way): Promise<RequestsMessage> {
  const response = await request(path, person, way);
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  let text = '';
  const decoder = new TextDecoder();
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece as Uint8Array, { stream: true });
    const [, data] = /event: requests\ndata: (.*)\n\n/.exec(text) ?? [];
    if (data !== undefined) return requestsMessageSchema.strict().parse(JSON.parse(data));
  }
  throw new Error(`the stream ended after ${text}`);
}

test('an operator sees all rows, with the names of keys, nodes and causes', async () => {
  const all = requestListSchema.strict().parse(await read('/requests?limit=1000'));
  expect(all.silent).toEqual([]);
  expect(all.items.length).toBeGreaterThanOrEqual(12);
  const served = all.items.filter(({ verdict, organisation }) => verdict === 'served' && organisation);
  for (const row of served.filter(({ operation }) => operation === 'chat'))
    expect([typeof row.node, row.keyName]).toEqual(['string', 'test']);
  const revoked = all.items.filter(({ key }) => key === keys['revoked']?.id);
  expect(revoked.map(({ organisation, cause }) => [organisation, typeof cause])).toEqual([
    ['birch', 'string'],
    ['birch', 'string'],
  ]);
});

const parts = (rows: readonly RequestRow[]): Set<string> => new Set(rows.flatMap((row) => Object.keys(row)));

test.each([
  ['acme', 'ana', 'birch', 'admin API'],
  ['birch', 'ben', 'acme', 'admin API'],
  ['acme', 'ana', 'birch', 'console'],
  ['birch', 'ben', 'acme', 'console'],
] as const)('a member of %s sees only its rows, and no names of others', async (own, person, other, way) => {
  const list = await read<RequestList>(`/requests?organisation=${own}&limit=1000`, person, way);
  const stream = await firstOf(`/requests/stream?organisation=${own}&limit=1000`, person, way);
  expect(list.items.length).toBeGreaterThanOrEqual(2);
  expect(new Set(list.items.map(({ organisation }) => organisation))).toEqual(new Set([own]));
  expect(stream.items).toEqual(list.items);
  for (const name of ['node', 'cause']) expect(parts(list.items)).not.toContain(name);
  const traffic = await read(`/traffic?organisation=${own}`, person, way);
  const text = JSON.stringify([list, stream, traffic]);
  const ofOthers = [other, stacks.heron, stacks.otter, keys[other]?.id ?? '', 'pool-1'];
  for (const name of ofOthers) expect([name, text.includes(name)]).toEqual([name, false]);
  // A filter by another organisation's objects finds nothing and reveals nothing.
  const none = `/requests?organisation=${own}&key=${keys[other]?.id}`;
  expect((await read<RequestList>(none, person, way)).items).toEqual([]);
  for (const path of ['/requests', '/requests/stream', '/traffic'])
    for (const query of [
      '',
      `?organisation=${other}`,
      `?organisation=${own}&node=pool-1`,
      '?organisation=nobody',
    ]) {
      const { status } = await request(path + query, person, way);
      expect([path, query, status]).toEqual([path, query, 403]);
    }
});

test.each(['admin API', 'console'] as const)(
  'no response of the %s contains a key, a prompt or a completion',
  async (way) => {
    const answers = await Promise.all([
      read('/requests?limit=1000', undefined, way),
      firstOf('/requests/stream?limit=1000', undefined, way),
      read('/traffic', undefined, way),
    ]);
    const text = JSON.stringify(answers);
    for (const { value } of Object.values(keys)) expect(text.includes(value)).toBe(false);
    expect(text).not.toMatch(/canary|echo: /);
  },
);

test.each(['next=x', 'since=7', 'slower-than=fast', 'type=NoType', 'limit=0', 'request=req_1'])(
  'a query with %s is refused by name',
  async (query) => {
    const response = await request(`/requests?${query}`);
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining(query.split('=')[0] ?? ''),
    ]);
  },
);

test('a cursor reveals no request count, cannot be forged, and leads to the next page', async () => {
  const first = await read<RequestList>('/requests?organisation=acme&limit=1', 'ana');
  const next = first.next ?? '';
  expect(Buffer.from(next, 'base64url').toString('latin1')).not.toMatch(/gateway/);
  const second = await read<RequestList>(`/requests?organisation=acme&limit=2&next=${next}`, 'ana');
  expect(second.items[0]?.request).not.toBe(first.items[0]?.request);
  const made = Buffer.from(JSON.stringify({ 'gateway-1': 3 })).toString('base64url');
  expect((await request(`/requests?organisation=acme&next=${made}`, 'ana')).status).toBe(400);
  // A list's cursor is refused for another organisation and with another filter.
  for (const query of ['organisation=birch', 'organisation=acme&outcome=refused', 'slower-than=1s'])
    expect((await request(`/requests?${query}&next=${next}`)).status).toBe(400);
  expect((await request(`/requests?organisation=birch&next=${next}`, 'ana')).status).toBe(403);
});
