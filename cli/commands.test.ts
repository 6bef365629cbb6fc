/** Every command against a stub control plane: the request that it sends, and its output in each format. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import {
  type AdminServer,
  type SeenRequest,
  startAdminServer,
  type TestAnswer,
  testToken,
} from '../test/support/admin-server.ts';
import { type CliOptions, type CliRun, runCli } from '../test/support/run-cli.ts';

let server: AdminServer;
beforeAll(async () => {
  server = await startAdminServer();
});
afterAll(() => server.close());
beforeEach(() => {
  server.seen.length = 0;
});

function cli(argv: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  return runCli(argv, {
    ...options,
    env: { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken, ...options.env },
  });
}

interface Case {
  readonly line: string;
  readonly call: string;
  readonly body?: unknown;
  /** What the control plane answers. */
  readonly resource: Record<string, unknown>;
  readonly name: string;
  /** Part of the table. */
  readonly table: string;
  /** What the command adds of other calls. */
  readonly extra?: Record<string, unknown>;
}

/** What commands ask in addition to their own call. */
const others: Readonly<Record<string, object>> = {
  '/usage/keys': { items: [] },
  '/gateways': { items: [] },
  '/nodes': { items: [] },
  '/activity': { refusals: [], unanswered: [] },
  '/doctor': { checks: [], ok: 1, warn: 0, fail: 0 },
};
const unused = { lastUsedAt: null, requestsOfDay: 0 };

const organisation = { id: 'acme', name: 'Acme', tier: 'Pro', anchor: '2026-11-01', suspended: false };
const member = { organisation: 'acme', person: 'ana', role: 'owner' };
const tier = { id: 'Pro', rank: 1, requestsPerMinute: 60, models: ['m1'] };
const model = { id: 'org/m:1', family: 'echo', weight: 2, added: '2026-11-01T00:00:00Z' };
const key = { id: 'key-1', organisation: 'acme', name: 'ci', expires: 'never', state: 'active' };
const stack = { id: 'stk-a-b-1', organisation: 'acme', surface: 'openai', models: ['m1'], nodes: ['n1'] };
const node = {
  id: 'n1',
  place: { kind: 'stack', id: 'stk-a-b-1' },
  url: 'http://n1',
  dialect: 'vllm',
  up: true,
};
const token = { id: 'tok-1', node: 'n1', createdAt: '2026-11-01T00:00:00Z', state: 'active' };
const gateway = { name: 'gw-1', state: 'SYNCED', applied: 7, lagEvents: 0, freshSeconds: 0.25, digest: 'ab' };
const event = { position: 1, index: 0, type: 'log.created', data: { log: 'l' }, at: 't', by: 'operator' };
const at7 = { position: 7 };

const lists: Case[] = [
  {
    line: 'org list',
    call: 'GET /organisations?limit=1000',
    resource: organisation,
    name: 'acme',
    table: 'Acme',
  },
  {
    line: 'member list --org acme',
    call: 'GET /members?organisation=acme&limit=1000',
    resource: member,
    name: 'ana',
    table: 'owner',
  },
  { line: 'tier list', call: 'GET /tiers?limit=1000', resource: tier, name: 'Pro', table: '60' },
  { line: 'model list', call: 'GET /models?limit=1000', resource: model, name: 'org/m:1', table: 'echo' },
  {
    line: 'key list --org acme',
    call: 'GET /keys?organisation=acme&limit=1000',
    resource: key,
    name: 'key-1',
    table: 'active',
    extra: unused,
  },
  {
    line: 'key list --limit 3',
    call: 'GET /keys?limit=3',
    resource: key,
    name: 'key-1',
    table: 'never',
    extra: unused,
  },
  {
    line: 'key list --text ci --state active --sort=-createdAt --limit 3 --after abc',
    call: 'GET /keys?state=active&text=ci&sort=-createdAt&limit=3&after=abc',
    resource: key,
    name: 'key-1',
    table: 'ci',
    extra: unused,
  },
  { line: 'stack list', call: 'GET /stacks?limit=1000', resource: stack, name: 'stk-a-b-1', table: 'openai' },
  {
    line: 'node list --at 5',
    call: 'GET /nodes?limit=1000&at=5',
    resource: node,
    name: 'n1',
    table: 'stack:stk-a-b-1',
  },
  {
    line: 'node token list n1',
    call: 'GET /nodes/n1/tokens?limit=1000',
    resource: token,
    name: 'tok-1',
    table: 'active',
  },
  { line: 'gateway list', call: 'GET /gateways', resource: gateway, name: 'gw-1', table: '0.3s' },
  { line: 'events list', call: 'GET /events', resource: event, name: '1', table: 'log.created' },
  {
    line: 'events list --type log.created',
    call: 'GET /events?type=log.created',
    resource: event,
    name: '1',
    table: 'created the log l',
  },
];

const limitUse = (organisation: string | null, tier: string) => ({
  ...{ organisation, tier, gateways: [], position: 7 },
  requests: { used: 1, limit: null, secondsLeft: null },
  concurrency: { inFlight: null, limit: null },
  tokens: { used: 5, limit: 9, refillsAt: '2026-12-01T00:00:00.000Z' },
});

const things: Case[] = [
  {
    line: 'org get acme',
    call: 'GET /organisations/acme',
    resource: organisation,
    name: 'acme',
    table: 'Acme',
  },
  { line: 'tier get Pro', call: 'GET /tiers/Pro', resource: tier, name: 'Pro', table: '60' },
  {
    line: 'tier get anonymous',
    call: 'GET /anonymous',
    resource: { freeTurns: 3 },
    name: 'anonymous',
    table: '3',
  },
  {
    line: 'model get org/m:1',
    call: 'GET /models/org%2Fm%3A1',
    resource: model,
    name: 'org/m:1',
    table: 'echo',
  },
  {
    line: 'key get key-1',
    call: 'GET /keys/key-1',
    resource: key,
    name: 'key-1',
    table: 'never',
    extra: unused,
  },
  {
    line: 'stack get stk-a-b-1',
    call: 'GET /stacks/stk-a-b-1',
    resource: stack,
    name: 'stk-a-b-1',
    table: 'n1',
  },
  { line: 'pool get', call: 'GET /pool', resource: { models: ['m1'], nodes: [] }, name: 'pool', table: 'm1' },
  { line: 'node get n1', call: 'GET /nodes/n1', resource: node, name: 'n1', table: 'vllm' },
  { line: 'gateway get gw-1', call: 'GET /gateways/gw-1', resource: gateway, name: 'gw-1', table: 'SYNCED' },
  { line: 'status', call: 'GET /status', resource: { log: 'log-1', ...at7 }, name: 'log-1', table: '7' },
  {
    line: 'limits show --org acme',
    call: 'GET /organisations/acme/limits',
    resource: limitUse('acme', 'Pro'),
    name: 'acme',
    table: 'Pro',
  },
  {
    line: 'limits show --visitors',
    call: 'GET /limits/visitors',
    resource: limitUse(null, 'anonymous'),
    name: 'visitors',
    table: 'anonymous',
  },
  {
    line: 'usage show --org acme --period 2026-11-01',
    call: 'GET /usage?organisation=acme&period=2026-11-01',
    resource: {
      organisation: 'acme',
      totalTokens: 9,
      requests: 2,
      models: [{ model: 'm1', totalTokens: 9 }],
      ...{ period: '2026-11-01', periods: ['2026-11-01'], allowance: null, countedTokens: null },
    },
    name: 'acme',
    table: 'm1',
  },
  {
    line: 'usage show --visitors',
    call: 'GET /usage/visitors',
    resource: { visitors: { day: { requests: 3 }, month: { requests: 41 } }, ...at7 },
    name: 'visitors',
    table: '41',
  },
];

const writes: Case[] = [
  {
    line: 'usage adjust --org acme --tokens -500 --why failed',
    call: 'POST /organisations/acme/usage-adjustments?why=failed',
    body: { tokens: -500 },
    resource: { organisation: 'acme', period: '2026-11-01', adjustedTokens: -500 },
    name: 'acme',
    table: 'usage acme adjusted at position 7',
  },
  {
    line: 'org create acme --name Acme --tier Pro --anchor 2026-11-01',
    call: 'POST /organisations',
    body: { id: 'acme', name: 'Acme', tier: 'Pro', anchor: '2026-11-01' },
    resource: organisation,
    name: 'acme',
    table: 'organisation acme created at position 7',
  },
  {
    line: 'org set acme --tier Max',
    call: 'PATCH /organisations/acme',
    body: { tier: 'Max' },
    resource: organisation,
    name: 'acme',
    table: 'changed',
  },
  {
    line: 'org set acme --no-tier',
    call: 'PATCH /organisations/acme',
    body: { tier: null },
    resource: organisation,
    name: 'acme',
    table: 'changed',
  },
  {
    line: 'org suspend acme --why unpaid',
    call: 'PATCH /organisations/acme?why=unpaid',
    body: { suspended: true },
    resource: organisation,
    name: 'acme',
    table: 'suspended',
  },
  {
    line: 'org resume acme',
    call: 'PATCH /organisations/acme',
    body: { suspended: false },
    resource: organisation,
    name: 'acme',
    table: 'resumed',
  },
  {
    line: 'org delete acme --yes --force',
    call: 'DELETE /organisations/acme?force=true',
    resource: organisation,
    name: 'acme',
    table: 'deleted',
  },
  {
    line: 'member set acme ana --role owner',
    call: 'PUT /organisations/acme/members/ana',
    body: { role: 'owner' },
    resource: member,
    name: 'ana',
    table: 'owner of acme',
  },
  {
    line: 'member remove acme ana -y',
    call: 'DELETE /organisations/acme/members/ana',
    resource: member,
    name: 'ana',
    table: 'removed',
  },
  { line: 'tier delete Pro -y', call: 'DELETE /tiers/Pro', resource: tier, name: 'Pro', table: 'deleted' },
  {
    line: 'gateway forget gw-1 -y',
    call: 'DELETE /gateways/gw-1',
    resource: { name: 'gw-1', forgotten: 1 },
    name: 'gw-1',
    table: 'gateway gw-1 forgotten',
  },
  { line: 'model delete m1 -y', call: 'DELETE /models/m1', resource: model, name: 'm1', table: 'deleted' },
  {
    line: 'key revoke key-1 -y',
    call: 'POST /keys/key-1/revoke',
    resource: key,
    name: 'key-1',
    table: 'revoked at position 7',
  },
  {
    line: 'stack create --org acme --surface anthropic',
    call: 'POST /stacks',
    body: { organisation: 'acme', surface: 'anthropic' },
    resource: stack,
    name: 'stk-a-b-1',
    table: 'created',
  },
  {
    line: 'stack install stk-a-b-1 org/m',
    call: 'PUT /stacks/stk-a-b-1/models/org%2Fm',
    resource: stack,
    name: 'stk-a-b-1',
    table: 'org/m installed',
  },
  {
    line: 'stack uninstall stk-a-b-1 m1',
    call: 'DELETE /stacks/stk-a-b-1/models/m1',
    resource: stack,
    name: 'stk-a-b-1',
    table: 'uninstalled',
  },
  {
    line: 'stack surface stk-a-b-1 anthropic',
    call: 'PUT /stacks/stk-a-b-1/surface',
    body: { surface: 'anthropic' },
    resource: stack,
    name: 'stk-a-b-1',
    table: 'anthropic',
  },
  {
    line: 'stack delete stk-a-b-1 -y',
    call: 'DELETE /stacks/stk-a-b-1',
    resource: stack,
    name: 'stk-a-b-1',
    table: 'deleted',
  },
  {
    line: 'pool install m1',
    call: 'PUT /pool/models/m1',
    resource: { models: ['m1'] },
    name: 'm1',
    table: 'installed',
  },
  {
    line: 'pool uninstall m1',
    call: 'DELETE /pool/models/m1',
    resource: { models: [] },
    name: 'm1',
    table: 'uninstalled',
  },
  {
    line: 'node register n1 --place stack:stk-a-b-1 --url http://n1 --dialect vllm --agent --credential A --served org/m:1=m --served x=y=z',
    call: 'POST /nodes',
    body: {
      id: 'n1',
      place: { kind: 'stack', id: 'stk-a-b-1' },
      url: 'http://n1',
      dialect: 'vllm',
      agent: true,
      credential: 'A',
      models: { 'org/m:1': 'm', x: 'y=z' },
    },
    resource: node,
    name: 'n1',
    table: 'registered',
  },
  { line: 'node drain n1', call: 'POST /nodes/n1/drain', resource: node, name: 'n1', table: 'drained' },
  { line: 'node undrain n1', call: 'POST /nodes/n1/undrain', resource: node, name: 'n1', table: 'undrained' },
  { line: 'node remove n1 -y', call: 'DELETE /nodes/n1', resource: node, name: 'n1', table: 'removed' },
  {
    line: 'node token revoke tok-1 -y',
    call: 'POST /tokens/tok-1/revoke',
    resource: token,
    name: 'tok-1',
    table: 'revoked',
  },
];

function calls(): string[] {
  return server.seen.map(({ method, path, query }) => {
    const text = new URLSearchParams(query).toString();
    return `${method} ${path}${text && `?${text}`}`;
  });
}

async function inEachFormat(
  entry: Case,
  answer: Record<string, unknown>,
  shown: Record<string, unknown> = answer,
): Promise<void> {
  const own = (entry.call.split(' ')[1] ?? '').split('?')[0] ?? '';
  server.answer = ({ path }) => ({ body: path === own ? answer : (others[path] ?? answer) });
  const argv = entry.line.split(' ');
  const json = await cli([...argv, '-o', 'json']);
  expect(json).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(json.out)).toEqual(shown);
  expect(calls().filter((call) => call === entry.call || !entry.extra)).toEqual([entry.call]);
  expect(server.seen[0]?.body).toEqual(entry.body);
  expect(server.seen[0]?.headers.authorization).toBe(`Bearer ${testToken}`);
  const yaml = await cli(['-o', 'yaml', ...argv]);
  expect(parse(yaml.out)).toEqual(shown);
  expect(await cli([...argv, '-o', 'name'])).toMatchObject({ code: 0, out: `${entry.name}\n` });
  const table = await cli(argv);
  expect(table.code).toBe(0);
  expect(table.out).toContain(entry.table);
}

test.each(lists)('design 12, lists: $line', async (entry) => {
  const shown = { ...entry.resource, ...entry.extra };
  await inEachFormat(entry, { items: [entry.resource], position: 7 }, { items: [shown], position: 7 });
  const lines = await cli([...entry.line.split(' '), '-o', 'jsonl']);
  expect(lines.out).toBe(`${JSON.stringify(shown)}\n`);
  server.answer = () => ({ body: { items: [], position: 7 } });
  expect((await cli([...entry.line.split(' '), '-o', 'name'])).out).toBe('');
});

test.each(things)('design 12, single things: $line', async (entry) => {
  await inEachFormat(entry, entry.resource, { ...entry.resource, ...entry.extra });
});

test.each(writes)('design 12, writes: $line', async (entry) => {
  await inEachFormat(entry, { ...entry.resource, ...at7 });
  expect(
    server.seen.every(({ headers }) => /^[A-Za-z0-9._-]{8,64}$/.test(String(headers['idempotency-key']))),
  ).toBe(true);
  const keys = server.seen.map(({ headers }) => headers['idempotency-key']);
  expect(new Set(keys).size).toBe(keys.length);
});

test('global options reach the control plane', async () => {
  server.answer = () => ({ body: { ...organisation, ...at7 } });
  const argv = [
    'org',
    'resume',
    'acme',
    '--as',
    'ana',
    '--if-at',
    '6',
    '--dry-run',
    '--force',
    '--why',
    'paid',
  ];
  const { out } = await cli(argv);
  expect(out).toBe('organisation acme would be resumed\n');
  expect(server.seen[0]?.headers).toMatchObject({ 'x-headgate-as': 'ana', 'if-match': '"6"' });
  expect(server.seen[0]?.query).toEqual({ dryRun: 'true', force: 'true', why: 'paid' });
});

test('member invite prints the link alone on stdout, and what it does on stderr', async () => {
  const url = 'http://console/sign-in#invitation.x';
  server.answer = () => ({ body: { url, expiresAt: '2026-12-01T00:00:00Z' } });
  const run = await cli(['member', 'invite', '--org', 'acme', '--role', 'viewer', '--expires', '60s']);
  expect(run).toMatchObject({ code: 0, out: `${url}\n` });
  expect(run.err).toContain('makes one person viewer of acme, until 2026-12-01');
  expect(calls()).toEqual(['POST /organisations/acme/invitations']);
  expect(server.seen[0]?.body).toEqual({ role: 'viewer', seconds: 60 });
});

test('a page that is not the last one says how to read on', async () => {
  server.answer = () => ({ body: { items: [organisation], next: 'abc', total: 7, position: 7 } });
  const { err } = await cli(['org', 'list', '--limit', '1']);
  expect(err).toContain('there are 7; the next ones: --after abc');
});

/** Pages of two keys, five in all. */
function pagesOfKeys({ path, query }: SeenRequest): TestAnswer {
  if (path === '/usage/keys') return { body: { items: [] } };
  const from = Number(query['after'] ?? 0);
  const items = [1, 2, 3, 4, 5].slice(from, from + Math.min(2, Number(query['limit'])));
  const end = from + items.length;
  const next = end < 5 ? { next: String(end) } : {};
  const names = items.map((n) => ({ ...key, id: `key-${n}`, name: 'n'.repeat(n) }));
  return { body: { items: names, ...next, total: 5, position: 7 } };
}

test('a list is read page after page, and each page is printed as it comes', async () => {
  const seen: string[] = [];
  server.answer = (request) => {
    seen.push(request.path);
    return pagesOfKeys(request);
  };
  const table = await cli(['key', 'list']);
  expect(calls().filter((call) => call.startsWith('GET /keys'))).toEqual([
    'GET /keys?limit=1000',
    'GET /keys?limit=1000&after=2',
    'GET /keys?limit=1000&after=4',
  ]);
  expect(calls()).toContain('GET /usage/keys?limit=1000&after=4');
  const lines = table.out.trimEnd().split('\n');
  expect(lines.map((line) => line.split(/ +/)[0])).toEqual([
    'ID',
    'key-1',
    'key-2',
    'key-3',
    'key-4',
    'key-5',
  ]);
  expect(table.err).toBe('');
  expect((await cli(['key', 'list', '-o', 'name'])).out).toBe('key-1\nkey-2\nkey-3\nkey-4\nkey-5\n');
  const document = JSON.parse((await cli(['key', 'list', '-o', 'json'])).out);
  expect([document.items.length, document.total, document.next]).toEqual([5, 5, undefined]);
});

test('--limit is of all pages together', async () => {
  server.answer = pagesOfKeys;
  const { out, err } = await cli(['key', 'list', '--limit', '3', '-o', 'name']);
  expect(out).toBe('key-1\nkey-2\nkey-3\n');
  expect(err).toContain('there are 5; the next ones: --after 3');
  expect(calls()).toEqual(['GET /keys?limit=3', 'GET /keys?limit=1&after=2']);
});

test('a write without a change prints unchanged', async () => {
  server.answer = () => ({ body: { ...organisation, unchanged: true, ...at7 } });
  expect((await cli(['org', 'resume', 'acme'])).out).toBe('organisation acme unchanged\n');
});

test.each([
  [
    'tier set Pro --concurrency 4 --requests-per-minute none',
    tier,
    { rank: 1, concurrency: 4, models: ['m1'] },
  ],
  ['tier set Pro --models *', tier, { rank: 1, requestsPerMinute: 60, models: '*' }],
  ['tier set anonymous --free-turns 5', { freeTurns: 3, models: ['m1'] }, { freeTurns: 5, models: ['m1'] }],
  [
    'tier set anonymous --total-concurrency 4 --total-tokens-per-day none',
    { freeTurns: 3, models: ['m1'], total: { requestsPerMinute: 9, tokensPerDay: 100 } },
    { freeTurns: 3, models: ['m1'], total: { requestsPerMinute: 9, concurrency: 4 } },
  ],
  ['model set m1 --weight 4', model, { family: 'echo', weight: 4, added: model.added }],
])('%s keeps what it does not name', async (line, present, sent) => {
  server.answer = () => ({ body: { ...present, ...at7 } });
  expect((await cli(line.split(' '))).code).toBe(0);
  expect(server.seen.map(({ method }) => method)).toEqual(['GET', 'PUT']);
  expect(server.seen[1]?.body).toEqual(sent);
});

test.each([
  ['tier set New --models a,b', { models: ['a', 'b'] }],
  ['model set new --family echo', { family: 'echo' }],
])('%s makes what is not there', async (line, sent) => {
  server.answer = ({ method }) =>
    method === 'GET' ? { status: 404, body: { error: { type: 'NotFound' } } } : { body: at7 };
  expect((await cli(line.split(' '))).code).toBe(0);
  expect(server.seen[1]?.body).toEqual(sent);
});

test.each(['tier set New --concurrency 1', 'model set new --weight 1', 'org set acme'])(
  '%s is refused: something is missing',
  async (line) => {
    server.answer = () => ({ status: 404, body: { error: { type: 'NotFound' } } });
    expect((await cli(line.split(' '))).code).toBe(2);
    expect(server.seen.filter(({ method }) => method !== 'GET')).toEqual([]);
  },
);

test('events list follows pages until it is complete, and --limit ends it', async () => {
  const pages: Record<string, object> = {
    '1': { items: [{ position: 1 }, { position: 2 }], position: 4, nextFrom: 3 },
    '3': { items: [{ position: 3 }, { position: 4 }], position: 4 },
  };
  server.answer = ({ query }) => ({ body: pages[query['from'] ?? '1'] });
  const all = await cli(['events', 'list', '-o', 'json']);
  expect(JSON.parse(all.out)).toEqual({ items: [1, 2, 3, 4].map((position) => ({ position })), position: 4 });
  expect((await cli(['events', 'list', '--limit', '3', '-o', 'name'])).out).toBe('1\n2\n3\n');
});

test('events list says where a history that was cut begins, and what helps', async () => {
  const cut = { historyFrom: 4000, historyNext: 'let it keep more (--history-gigabytes)' };
  server.answer = () => ({ body: { items: [], position: 4200, ...cut } });
  const { code, err } = await cli(['events', 'list', '--newest']);
  expect([code, err]).toEqual([0, expect.stringMatching(/from position 4000 on.*--history-gigabytes/)]);
});

test('usage export passes the lines on as they are', async () => {
  server.answer = () => ({ bytes: Buffer.from('{"n":1}\n{"n":2}\n') });
  const run = await cli(['usage', 'export', '--org', 'acme', '--from', '2026-11-01', '--to', '2026-12-01']);
  expect(run).toMatchObject({ code: 0, out: '{"n":1}\n{"n":2}\n' });
  expect(calls()).toEqual(['GET /usage/export?organisation=acme&from=2026-11-01&to=2026-12-01']);
});
