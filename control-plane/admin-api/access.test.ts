/** Calls every route of a running control plane as every kind of caller, and checks who is let in. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { amber, peopleFleet, persons } from '../../test/support/people-fleet.ts';

const gatewayToken = 'test-gateway-token-0001';
const fleet: Fleet = { ...peopleFleet, anonymous: { freeTurns: 1, models: [] } };
type Role = keyof typeof persons;

let plane: TestControlPlane;
let key: string;
let nodeTokenId: string;
beforeAll(async () => {
  plane = await startControlPlaneAlone({
    gatewayToken,
    console: { bind: '127.0.0.1', port: 0, hosts: [] },
  });
  await plane.admin.apply(fleet);
  key = (await plane.admin.createKey('acme', 'a key')).id;
  nodeTokenId = (await plane.admin.createNodeToken('n1')).id;
});
afterAll(() => plane.close());

interface Operation {
  readonly 'x-headgate-access': readonly string[];
  readonly security: readonly object[];
}
interface Route {
  readonly method: string;
  readonly path: string;
  readonly access: readonly string[];
}

/** WebSocket routes, listed here because the API document does not describe them. */
const webSockets: readonly Route[] = [
  { method: 'GET', path: '/admin/v1/events/stream', access: ['operator'] },
  { method: 'GET', path: '/nodes/v1/connect', access: ['node'] },
];

async function routes(): Promise<Route[]> {
  const response = await fetch(`${plane.url}/admin/v1/openapi.json`);
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, Operation>> };
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      access: operation['x-headgate-access'],
    })),
  );
  return [...documented, ...webSockets];
}

/** Query parameters that name acme, so that access depends only on the caller. */
const queries: Record<string, string> = {
  '/members': 'organisation=acme',
  '/keys': 'organisation=acme',
  '/stacks': 'organisation=acme',
  '/usage': 'organisation=acme',
  '/usage/export': 'organisation=acme',
  '/usage/keys': 'organisation=acme',
  '/confirmations/{position}': 'timeoutSeconds=0',
  '/explain/matrix': 'organisation=acme',
  '/traffic': 'organisation=acme',
  '/requests': 'organisation=acme',
  '/requests/stream': 'organisation=acme',
};
const bodies: Record<string, object> = {
  'POST /effect': {
    method: 'POST',
    path: '/keys',
    body: { organisation: 'acme', name: 'k', expires: 'never' },
  },
  'POST /explain': { organisation: 'acme', model: 'echo-small' },
  'POST /keys': { organisation: 'acme', name: 'k', expires: 'never' },
  'PUT /organisations/{id}/members/{person}': { role: 'viewer' },
  'POST /organisations/{id}/invitations': { role: 'viewer' },
  'PUT /stacks/{id}/surface': { surface: 'anthropic' },
  'POST /fleet/apply': { fleet },
  'POST /fleet/diff': { fleet },
};
const idOf: readonly (readonly [prefix: string, id: () => string])[] = [
  ['/organisations', () => 'acme'],
  ['/keys', () => key],
  ['/stacks', () => amber],
  ['/tiers', () => 'Pro'],
  ['/models', () => 'echo-small'],
  ['/nodes', () => 'n1'],
  ['/tokens', () => nodeTokenId],
];

/**
 * Whether the route is about a recorded decision. No gateway runs here, so none is recorded, and a missing decision is
 * refused like another organisation's.
 */
function isOfNobody({ path }: Route): boolean {
  return path.endsWith('/decisions/{request}');
}

async function status(route: Route, token: string | undefined, person?: string): Promise<number> {
  const { method, path } = route;
  const below = path.replace(/^\/admin\/v1/, '');
  const id = idOf.find(([prefix]) => below.startsWith(prefix))?.[1]() ?? 'x';
  const parameters: Record<string, string> = {
    id,
    person: 'vic',
    model: 'echo-small',
    position: '1',
    name: 'x',
    request: `req_${'0'.repeat(32)}`,
  };
  const filled = path.replace(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(parameters[name] ?? 'x'),
  );
  const query = method === 'GET' ? (queries[below] ?? '') : 'dryRun=true';
  const body = bodies[`${method} ${below}`];
  const response = await fetch(`${plane.url}${filled}?${query}`, {
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(person !== undefined && { 'x-headgate-as': person }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  await response.body?.cancel();
  return response.status;
}

/** Treats every status except 401 and 403 as passed, because the route itself answered. */
const passed = (code: number): 'passed' | number => (code === 401 || code === 403 ? code : 'passed');

describe('access to every route', () => {
  test('the API document states who may call it', async () => {
    const all = await routes();
    expect(all.length).toBeGreaterThan(45);
    for (const { method, path, access } of all)
      expect([method, path, access?.length]).not.toContain(undefined);
    const of = (method: string, path: string): readonly string[] | undefined =>
      all.find((route) => route.method === method && route.path === path)?.access;
    expect(all.filter(({ access }) => access.includes('public')).map(({ path }) => path)).toEqual([
      '/admin/v1/openapi.json',
    ]);
    expect(of('GET', '/admin/v1/snapshot')).toEqual(['gateway']);
    expect(of('POST', '/admin/v1/keys')).toEqual(['operator', 'owner', 'admin', 'approver', 'member']);
  });

  test('calls without a token, or with a wrong, gateway or operator token, get the declared response', async () => {
    for (const route of await routes()) {
      const kind = route.access[0];
      const open = kind === 'public';
      const table = {
        nobody: passed(await status(route, undefined)),
        wrong: passed(await status(route, 'a-token-of-somebody-else')),
        gateway: passed(await status(route, gatewayToken)),
        operator: passed(await status(route, operatorToken)),
      };
      expect([route.method, route.path, table]).toEqual([
        route.method,
        route.path,
        {
          nobody: open ? 'passed' : 401,
          wrong: open ? 'passed' : 401,
          gateway: open || kind === 'gateway' ? 'passed' : 401,
          operator: kind === 'node' ? 401 : 'passed',
        },
      ]);
    }
  });

  test('the operator’s token on behalf of a person opens what the person’s role opens, and no more', async () => {
    for (const route of await routes()) {
      const kind = route.access[0];
      if (kind === 'public' || kind === 'node') continue;
      const table: Record<string, unknown> = {};
      const wanted: Record<string, unknown> = {};
      for (const [role, person] of Object.entries(persons)) {
        table[role] = passed(await status(route, operatorToken, person));
        wanted[role] = route.access.includes(role) && !isOfNobody(route) ? 'passed' : 403;
      }
      // An owner of another organisation may still call routes that name no organisation.
      table['foreign owner'] = passed(await status(route, operatorToken, 'ben'));
      const nobodys = /\/(?:me|confirmations\/.*)$/.test(route.path);
      wanted['foreign owner'] = nobodys && route.access.includes('owner') ? 'passed' : 403;
      for (const nobody of ['no-such-person', 'operator', 'checkpoint', 'restore', '', 'A B', 'olga, vic']) {
        table[nobody] = passed(await status(route, operatorToken, nobody));
        wanted[nobody] = 403;
      }
      expect([route.method, route.path, table]).toEqual([route.method, route.path, wanted]);
    }
  });

  test('what members may call, the operator may call in the same way', async () => {
    for (const route of await routes()) {
      if (route.access[0] === 'operator' && route.access.length > 1)
        expect([route.method, route.path, await status(route, operatorToken)]).toEqual([
          route.method,
          route.path,
          isOfNobody(route) ? 404 : 200,
        ]);
    }
  });
});

test('only the operator learns that a path has no route', async () => {
  const route = { method: 'GET', path: '/admin/v1/nowhere', access: [] };
  expect(await status(route, undefined)).toBe(401);
  expect(await status(route, gatewayToken)).toBe(401);
  expect(await status(route, operatorToken, 'olga')).toBe(403);
  expect(await status(route, operatorToken)).toBe(404);
});

test('HEAD needs the same rights as GET', async () => {
  for (const route of await routes()) {
    if (route.method !== 'GET' || route.access[0] === 'public') continue;
    const head = { ...route, method: 'HEAD' };
    expect([route.path, passed(await status(head, undefined))]).toEqual([route.path, 401]);
    if (route.access[0] !== 'node')
      expect([route.path, passed(await status(head, operatorToken, 'no-such-person'))]).toEqual([
        route.path,
        403,
      ]);
  }
});

test('a person reads the past only with today’s role', async () => {
  const { position } = await plane.admin.call('PUT', '/organisations/acme/members/leo', {
    role: 'viewer',
  });
  const past = (): Promise<Response> =>
    askAdmin(plane.url, `/keys?organisation=acme&at=${position}`, { as: 'leo' });
  expect((await past()).status).toBe(200);
  await plane.admin.call('DELETE', '/organisations/acme/members/leo');
  await plane.admin.call('PUT', '/organisations/birch/members/leo', { role: 'viewer' });
  expect((await past()).status).toBe(403);
});

async function send(person: string | undefined, method: string, path: string, body?: object, key?: string) {
  const headers = key === undefined ? {} : { 'idempotency-key': key };
  const response = await askAdmin(plane.url, path, { method, body, as: person, headers });
  const text = await response.text();
  return { status: response.status, text };
}

test('a caller who may not give the command cannot learn whether an Idempotency-Key was used', async () => {
  const body = { organisation: 'acme', name: 'secret plan', expires: 'never' };
  expect((await send('olga', 'POST', '/keys', body, 'used-by-olga-1')).status).toBe(200);
  const other = { ...body, name: 'another' };
  for (const person of ['vic', 'ben', 'no-such-person']) {
    const used = await send(person, 'POST', '/keys', other, 'used-by-olga-1');
    const unused = await send(person, 'POST', '/keys', other, `unused-by-anybody-${person}`);
    expect([used.status, used.text]).toEqual([403, unused.text]);
  }
  expect((await send('mia', 'POST', '/keys', other, 'used-by-olga-1')).status).toBe(409);
});

test('events without a person name an author that no person can have', async () => {
  for (const person of ['operator', 'checkpoint', 'restore', 'control-plane:cp'])
    expect(
      (await send(undefined, 'PUT', `/organisations/acme/members/${person}`, { role: 'viewer' })).status,
    ).toBe(400);
  const { items } = JSON.parse((await send(undefined, 'GET', '/events')).text) as { items: { by: string }[] };
  const authors = new Set(items.map(({ by }) => by));
  expect([...authors].filter((by) => !/^[a-z0-9-]+$/.test(by))).toEqual(['control-plane:cp']);
  expect(authors).not.toContain('cp');
});

describe('owners', () => {
  const set = (actor: string | undefined, person: string, role: Role | 'none', query = '') =>
    send(
      actor,
      role === 'none' ? 'DELETE' : 'PUT',
      `/organisations/acme/members/${person}${query}`,
      role === 'none' ? undefined : { role },
    );

  test('only an owner may add, change or remove an owner', async () => {
    expect((await set('ada', 'ada', 'owner')).status).toBe(403);
    expect((await set('ada', 'newcomer', 'owner')).status).toBe(403);
    expect((await set('ada', 'olga', 'viewer')).status).toBe(403);
    expect((await set('ada', 'olga', 'none')).status).toBe(403);
    expect((await set('ada', 'newcomer', 'admin')).status).toBe(200);
    expect((await set('olga', 'newcomer', 'owner')).status).toBe(200);
    expect((await set('newcomer', 'newcomer', 'none')).status).toBe(200);
  });

  test('the last owner stays', async () => {
    for (const role of ['admin', 'none'] as const) {
      for (const query of ['', '?force=true'])
        expect((await set('olga', 'olga', role, query)).status).toBe(403);
      const guarded = await set(undefined, 'olga', role);
      expect([guarded.status, guarded.text]).toEqual([409, expect.stringContaining('GuardRefused')]);
    }
    const emptied = {
      ...fleet,
      organisations: [
        { id: 'acme', name: 'Acme', tier: 'Pro', members: [{ person: 'olga', role: 'admin' }] },
      ],
    };
    expect((await send(undefined, 'POST', '/fleet/apply', { fleet: emptied })).status).toBe(409);
    expect((await set(undefined, 'olga', 'admin', '?force=true')).status).toBe(200);
    // Only the operator can give an owner to an organisation that has none.
    expect((await set('ada', 'ada', 'owner')).status).toBe(403);
    expect((await set(undefined, 'olga', 'owner')).status).toBe(200);
  });
});
