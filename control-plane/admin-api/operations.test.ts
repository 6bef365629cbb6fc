import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ZodObject } from 'zod';
import { adminOperations, type OperationAnswer } from '../../schemas/admin/admin.ts';
import { commandRows } from '../../schemas/admin/admin-commands.ts';
import { type OperationName, operationNames, operationRoute } from '../../schemas/admin/admin-routes.ts';
import type { OperationRow } from '../../schemas/admin/admin-row.ts';
import { turningNames } from '../../schemas/admin/turned-answers.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import { checkAnswer } from '../../test/support/admin-answers.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startControlPlaneAlone } from '../../test/support/control-plane.ts';
import { startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { effectOfEvent } from '../commands/event-effects.ts';
import { refuseOthers } from './operations.ts';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(() => fleet.close());

const answered = new Set<OperationName | undefined>();

interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly admin?: string;
}

/** Calls the API and checks the answer against the schema of its route. */
async function call(
  method: string,
  path: string,
  body?: unknown,
  { headers = {}, admin = fleet.controlPlane.admin }: CallOptions = {},
): Promise<Record<string, unknown>> {
  const response = await askAdmin(admin, path, { method, body, headers });
  const answer = (await response.json()) as Record<string, unknown>;
  expect([method, path, response.status, response.ok ? '' : answer]).toEqual([method, path, 200, '']);
  const name = checkAnswer(method, path, response.status, answer);
  answered.add(name);
  const isWritten = !['dryRun', 'unchanged', 'repeated'].some((field) => field in answer);
  if (
    name &&
    (name in commandRows || name === 'commit.undo') &&
    isWritten &&
    admin === fleet.controlPlane.admin
  )
    written.push([name, answer['position']]);
  return answer;
}

/** Commands that were carried out, with the positions of their commits. */
const written: (readonly [name: OperationName, position: unknown])[] = [];

type LimitsPage = OperationAnswer<'limits.list'>;

interface OperationDocument {
  readonly operationId?: string;
  readonly responses: Record<string, { readonly content: object }>;
}
interface Document {
  readonly paths: Record<string, Record<string, OperationDocument>>;
}

test('the API document contains exactly the operations of the table, each with its response', async () => {
  const { paths } = (await call('GET', '/openapi.json')) as unknown as Document;
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses }]) => {
      const name = path.replace('/admin/v1', '').replace(/\{(\w+)\}/g, ':$1');
      expect(Object.keys(responses)).toEqual(['200', 'default']);
      expect(JSON.stringify(responses['200']?.content)).toMatch(/"schema":\{"(?:type|anyOf)"/);
      return `${method.toUpperCase()} ${name}`;
    }),
  );
  const declared = operationNames.filter((name) => name !== 'event.tail').map(operationRoute);
  expect(documented.filter((name) => !name.startsWith('HEAD ')).sort()).toEqual(
    declared.map(({ method, path }) => `${method} ${path}`).sort(),
  );
  const ids = Object.values(paths).flatMap((methods) =>
    Object.values(methods).flatMap(({ operationId = [] }) => operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
});

test('the API document forbids unknown fields in requests and allows them in responses', async () => {
  const { paths } = (await call('GET', '/openapi.json')) as unknown as Document;
  const { responses, ...request } = paths['/admin/v1/keys']?.['post'] ?? { responses: {} };
  expect(JSON.stringify(request)).toContain('"additionalProperties":false');
  expect(JSON.stringify(responses)).not.toContain('"additionalProperties":false');
});

test('a server with a route outside the operations table does not start', () => {
  const app = Fastify();
  refuseOthers(app);
  app.get('/admin/v1/status', { config: { operation: 'status.get' } }, () => ({}));
  expect(() => app.get('/admin/v1/other', () => ({}))).toThrow(/GET \/admin\/v1\/other is not an operation/);
});

test('no two operations share a route, and each path has the parameters of its schema', () => {
  const routes = operationNames.map((name) => Object.values(operationRoute(name)).join(' '));
  expect(new Set(routes).size).toBe(operationNames.length);
  for (const name of operationNames) {
    const { params }: OperationRow = adminOperations[name];
    const named = [...operationRoute(name).path.matchAll(/:([a-z]+)/g)].map(([, part]) => part);
    expect([name, ...Object.keys(params?.shape ?? {})]).toEqual([name, ...named]);
  }
});

/** Lists that stay short in any fleet, each with the reason. */
const shortLists: Readonly<Partial<Record<OperationName, string>>> = {
  'gateway.list': 'what runs, and has not been forgotten',
  'signer.list': 'control planes that may sign',
  'change.list': 'the open one, and the last that are over',
};

test('each list has pages: 100 rows by default, at most 1,000, and a cursor to continue from', async () => {
  const lists = operationNames.filter((name) => name.endsWith('.list') && !(name in shortLists));
  expect(lists.length).toBeGreaterThanOrEqual(10);
  const { id } = await call('POST', '/nodes', {
    ...{ id: 'paged', url: 'http://127.0.0.1:1', dialect: 'vllm', place: { kind: 'pool' } },
  });
  for (const name of lists) {
    const { answer, query }: OperationRow = adminOperations[name];
    const next = Object.keys((answer as ZodObject).shape).filter((field) => /^next/.test(field));
    expect([name, next.length > 0]).toEqual([name, true]);
    const accepts = (limit: number): boolean => query?.safeParse({ limit }).success === true;
    expect([name, accepts(1000), accepts(0)]).toEqual([name, true, false]);
    // `event.list` accepts any limit, because its answers end with a whole commit and contain as many events as fit.
    if (name === 'event.list') continue;
    expect([name, accepts(1001)]).toEqual([name, false]);
    const path = operationRoute(name).path.replace(':id', String(id));
    const response = await askAdmin(fleet.controlPlane.admin, `${path}?limit=1001`);
    expect([name, response.status]).toEqual([name, 400]);
  }
});

async function callTenants(): Promise<void> {
  await call('POST', '/organisations', { id: 'elm', name: 'Elm' });
  await call('PATCH', '/organisations/elm', { suspended: true, anchor: '2026-11-01' });
  await call('PATCH', '/organisations/elm', { suspended: true });
  await call('PUT', '/organisations/elm/members/eve', { role: 'viewer' });
  await call('GET', '/organisations');
  await call('GET', '/organisations/elm');
  await call('GET', '/members?organisation=elm');
  const headers = { 'idempotency-key': 'one-key-of-elm' };
  const body = { organisation: 'elm', name: 'one', expires: '1y' };
  const { id } = await call('POST', '/keys', body, { headers });
  expect(await call('POST', '/keys', body, { headers })).toMatchObject({ repeated: true });
  expect(await call('POST', '/keys?dryRun=true', body)).toMatchObject({ dryRun: true });
  const many = { items: [body, { ...body, name: 'two' }] };
  const ofMany = { headers: { 'idempotency-key': 'two-keys-of-elm' } };
  await call('POST', '/keys', many, ofMany);
  expect(await call('POST', '/keys', many, ofMany)).toMatchObject({ repeated: true });
  await call('GET', '/keys');
  await call('GET', `/keys/${id}`);
  await call('POST', `/keys/${id}/revoke`);
  await call('GET', `/keys/${id}`);
  await call('DELETE', '/organisations/elm/members/eve');
}

async function callCatalog(): Promise<void> {
  await call('PUT', '/models/elm-7b', { family: 'Elm' });
  await call('PUT', '/tiers/Elm', { models: ['elm-7b'], concurrency: 2, monthlyTokens: 5 });
  await call('PUT', '/anonymous', { freeTurns: 1, models: '*', requestsPerMinute: 3 });
  await call('PUT', '/bounds', { activeKeysPerOrganisation: 9000 });
  for (const path of ['/models', '/models/elm-7b', '/tiers', '/tiers/Elm', '/anonymous', '/bounds'])
    await call('GET', path);
  await call('PATCH', '/organisations/elm', { tier: 'Elm' });
}

async function callChanges(): Promise<void> {
  const staged = await call('PUT', '/tiers/Elm?stage=true&hold=1h', { models: [], concurrency: 1 });
  const { id } = staged;
  expect(staged).toMatchObject({ state: 'open', wave: 1 });
  expect(await call('GET', '/staged-changes')).toMatchObject({ items: [{ id }] });
  expect(await call('GET', `/staged-changes/${id}`)).toMatchObject({ id, figures: { inside: {} } });
  expect(await call('POST', `/staged-changes/${id}/advance`)).toMatchObject({ wave: 2 });
  const withdrawn = await call('POST', `/staged-changes/${id}/withdraw`, { reason: 'tried' });
  expect(withdrawn).toMatchObject({ state: 'withdrawn', reason: 'tried' });
}

async function callCapacity(): Promise<void> {
  await call('POST', '/stacks', { organisation: 'elm', id: 'stk-elm-tree-1' });
  await call('PUT', '/stacks/stk-elm-tree-1/surface', { surface: 'anthropic' });
  await call('PUT', '/stacks/stk-elm-tree-1/models/elm-7b');
  await call('PUT', '/pool/models/elm-7b');
  await call('POST', '/nodes', {
    id: 'elm-1',
    url: 'http://127.0.0.1:9',
    dialect: 'vllm',
    place: { kind: 'stack', id: 'stk-elm-tree-1' },
    credential: 'ELM',
    models: { 'elm-7b': 'elm' },
    agent: true,
  });
  await call('POST', '/tokens', { node: 'elm-1' });
  await call('POST', '/tokens', { items: [{ node: 'elm-1' }, { node: 'elm-1' }] });
  const { id } = await call('POST', '/nodes/elm-1/tokens');
  await call('POST', '/nodes/elm-1/drain');
  const reads = ['/stacks', '/stacks/stk-elm-tree-1', '/pool', '/nodes', '/nodes/elm-1', '/nodes/pool-1'];
  for (const path of [...reads, '/nodes/elm-1/tokens', `/tokens/${id}`]) await call('GET', path);
  await call('POST', '/nodes/elm-1/undrain');
  await call('POST', `/tokens/${id}/revoke`);
  await call('GET', '/nodes?at=2');
}

async function callFleet(): Promise<void> {
  const document = await call('GET', '/fleet');
  const { version } = document;
  await call('POST', '/fleet/diff', { fleet: { version }, prune: true });
  expect(await call('POST', '/fleet/apply', { fleet: document })).toMatchObject({ unchanged: true });
  const models = [{ id: 'elm-7b', family: 'Other' }];
  await call('POST', '/fleet/apply?dryRun=true', { fleet: { version, models } });
  await call('POST', '/organisations/elm/usage-adjustments', { tokens: 7 });
  expect(await call('GET', '/usage?organisation=elm')).toMatchObject({ totalTokens: 0, adjustedTokens: 7 });
  expect(await call('GET', '/organisations/elm/limits')).toMatchObject({
    suspended: true,
    tokens: { used: 7, limit: 0 },
  });
  await call('PATCH', '/organisations/elm', { suspended: false });
  await call('GET', '/limits/visitors');
  await call('GET', '/usage/visitors');
  await call('GET', '/usage/keys?organisation=elm');
  await call('GET', '/organisations/elm/activity');
  await call('GET', '/activity');
  await call('GET', '/traffic');
  expect(JSON.stringify(await call('GET', '/limits'))).toMatch(/^.{0,12}"organisation":"elm"/);
  const whole = (await call('GET', '/limits')) as unknown as LimitsPage;
  const pages = [(await call('GET', '/limits?limit=1')) as unknown as LimitsPage];
  for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next)
    pages.push((await call('GET', `/limits?limit=1&after=${next}`)) as unknown as LimitsPage);
  const idsOf = ({ items }: LimitsPage) => items.map(({ organisation }) => organisation);
  expect(pages.flatMap(idsOf)).toEqual(idsOf(whole));
  expect([pages.length, pages[0]?.total]).toEqual([whole.items.length, whole.items.length]);
  await call('GET', '/events');
  await call('GET', '/events?type=key.created&limit=1');
  await call('GET', '/me');
  await call('GET', '/me', undefined, { headers: { 'x-headgate-as': 'ana' } });
  await call('GET', '/events?order=desc&organisation=elm&limit=3');
  const { position: made } = await call('PUT', '/organisations/elm/members/ulf', { role: 'viewer' });
  await call('GET', `/events/${made}`);
  await call('GET', `/events/${made}/undo`);
  await call('POST', `/events/${made}/undo`);
  await call('GET', '/changes?from=2');
  await call('GET', '/doctor?skip=console');
  const { position } = await call('GET', '/status');
  await call('GET', `/confirmations/${position}`);
  await call('GET', '/gateways');
  await call('GET', '/gateways/gateway-1');
  await call('DELETE', '/gateways/gateway-1?dryRun=true');
  await call('DELETE', '/gateways/gateway-1');
}

async function callRemovals(): Promise<void> {
  await call('DELETE', '/nodes/elm-1');
  await call('DELETE', '/pool/models/elm-7b');
  await call('DELETE', '/stacks/stk-elm-tree-1/models/elm-7b');
  await call('DELETE', '/stacks/stk-elm-tree-1');
  await call('DELETE', '/organisations/elm');
  await call('DELETE', '/tiers/Elm');
  await call('DELETE', '/models/elm-7b');
}

async function callSigners(): Promise<void> {
  const publicKeys = { format: 'pem', type: 'spki' } as const;
  const privateKeys = { format: 'pem', type: 'pkcs8' } as const;
  const newKeys = () =>
    generateKeyPairSync('ed25519', { publicKeyEncoding: publicKeys, privateKeyEncoding: privateKeys });
  const signingKeyFile = join(fleet.dir, 'signer.pem');
  writeFileSync(signingKeyFile, newKeys().privateKey);
  const signed = await startControlPlaneAlone({
    signingKeyFile,
    console: { bind: '127.0.0.1', port: 0, hosts: [] },
  });
  const options = { admin: signed.url };
  try {
    await call('GET', '/status', undefined, options);
    await call('POST', '/console/links', undefined, options);
    await call('POST', '/organisations', { id: 'elm', name: 'Elm' }, options);
    await call('PUT', '/organisations/elm/members/eva', { role: 'owner' }, options);
    await call('POST', '/organisations/elm/members/eva/link', {}, options);
    await call('POST', '/organisations/elm/invitations', { role: 'viewer' }, options);
    const { fingerprint } = await call('POST', '/signers', { publicKey: newKeys().publicKey }, options);
    await call('GET', '/signers', undefined, options);
    await call('DELETE', `/signers/${fingerprint}`, undefined, options);
  } finally {
    await signed.close();
  }
}

async function callExplain(): Promise<void> {
  const body = { requestsPerMinute: 1, models: ['echo-large'] };
  await call('POST', '/effect', { method: 'PUT', path: '/tiers/Starter', body });
  const answer = await fetch(`${fleet.gateways[0]?.api}/models/none`);
  const request = answer.headers.get('x-request-id') ?? '';
  const { position } = await call('GET', '/status');
  await call('POST', '/explain', { organisation: 'acme', model: 'echo-small', diff: position });
  await call('POST', '/explain', { request });
  await call('GET', '/explain/matrix?organisation=acme');
  await call('GET', `/decisions/${request}`);
  await call('GET', '/requests?limit=3');
}

test('each route’s response matches its declaration, field by field', async () => {
  await callTenants();
  await callCatalog();
  await callChanges();
  await callCapacity();
  await callExplain();
  await callFleet();
  await callRemovals();
  await callSigners();
  const streams = [
    'event.tail',
    'log.export',
    'decision.export',
    'request.tail',
    'usage.export',
    'counters.get',
    'snapshot.get',
  ];
  expect([...answered].sort()).toEqual(operationNames.filter((name) => !streams.includes(name)).sort());
});

test('the table of commands that change responses agrees with what their events can do', async () => {
  const turned = new Set<OperationName>();
  // These two commands consist of other commands, so they are not checked by their events.
  const whole = ['fleet.apply', 'commit.undo'];
  for (const [name, position] of written.filter(([name]) => !whole.includes(name))) {
    const { events } = (await call('GET', `/events/${position}`)) as { events: { type: EventTypeName }[] };
    const can = events.map(({ type }) => effectOfEvent(type)).filter((effect) => effect !== 'nothing');
    if (can.length > 0) turned.add(name);
  }
  // These commands do not count: a new organisation has no keys that anyone could use yet, and changes in waves are watched
  // instead.
  const notSaid = ['change.advance', 'change.withdraw', 'organisation.create'];
  expect([...turned, ...whole].sort()).toEqual([...turningNames, ...notSaid].sort());
});

test('each line of an exported log matches the route’s declaration', async () => {
  const response = await askAdmin(fleet.controlPlane.admin, '/log');
  expect(response.headers.get('content-type')).toBe(adminOperations['log.export'].mediaType);
  const lines = (await response.text()).trimEnd().split('\n');
  expect(lines.length).toBeGreaterThan(1);
  for (const line of lines.map((text) => JSON.parse(text)))
    expect(adminOperations['log.export'].answer.parse(line)).toEqual(line);
});
