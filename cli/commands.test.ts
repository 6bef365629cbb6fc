/** Tests every command against a fake control plane: the request that it sends, and its output in each format. */
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import {
  cliOf,
  errorAnswer,
  type SeenRequest,
  type TestAnswer,
  testToken,
  useAdminServer,
} from '../test/support/admin-server.ts';

const server = useAdminServer();

const cli = cliOf(server);

type Fields = Record<string, unknown>;
/**
 * A command's test case. `table` is text that the table must contain. `more` is the body of a write, or the fields that a
 * read adds from other calls.
 */
type Case = [line: string, call: string, answer: Fields, name: string, table: string, more?: Fields];

/** Answers to the additional calls that some commands make. */
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
  ['org list', 'GET /organisations?limit=1000', organisation, 'acme', 'Acme'],
  ['member list --org acme', 'GET /members?organisation=acme&limit=1000', member, 'ana', 'owner'],
  ['tier list', 'GET /tiers?limit=1000', tier, 'Pro', '60'],
  ['model list', 'GET /models?limit=1000', model, 'org/m:1', 'echo'],
  ['key list --org acme', 'GET /keys?organisation=acme&limit=1000', key, 'key-1', 'active', unused],
  ['key list --limit 3', 'GET /keys?limit=3', key, 'key-1', 'never', unused],
  [
    'key list --text ci --state active --sort=-createdAt --limit 3 --after abc',
    'GET /keys?state=active&text=ci&sort=-createdAt&limit=3&after=abc',
    key,
    'key-1',
    'ci',
    unused,
  ],
  ['stack list', 'GET /stacks?limit=1000', stack, 'stk-a-b-1', 'openai'],
  ['node list --at 5', 'GET /nodes?limit=1000&at=5', node, 'n1', 'stack:stk-a-b-1'],
  ['node token list n1', 'GET /nodes/n1/tokens?limit=1000', token, 'tok-1', 'active'],
  ['gateway list', 'GET /gateways', gateway, 'gw-1', '0.3s'],
  ['events list', 'GET /events', event, '1', 'log.created'],
  ['events list --limit 1 --since 2h', 'GET /events?since=2h&limit=1&order=desc', event, '1', 'log.created'],
  ['events list --type log.created', 'GET /events?type=log.created', event, '1', 'created the log l'],
];

const limitUse = (organisation: string | null, tier: string) => ({
  ...{ organisation, tier, gateways: [], position: 7 },
  requests: { used: 1, limit: null, secondsLeft: null },
  concurrency: { inFlight: null, limit: null },
  tokens: { used: 5, limit: 9, refillsAt: '2026-12-01T00:00:00.000Z' },
});

const things: Case[] = [
  ['org get acme', 'GET /organisations/acme', organisation, 'acme', 'Acme'],
  ['tier get Pro', 'GET /tiers/Pro', tier, 'Pro', '60'],
  ['tier get anonymous', 'GET /anonymous', { freeTurns: 3 }, 'anonymous', '3'],
  ['model get org/m:1', 'GET /models/org%2Fm%3A1', model, 'org/m:1', 'echo'],
  ['key get key-1', 'GET /keys/key-1', key, 'key-1', 'never', unused],
  ['stack get stk-a-b-1', 'GET /stacks/stk-a-b-1', stack, 'stk-a-b-1', 'n1'],
  ['pool get', 'GET /pool', { models: ['m1'], nodes: [] }, 'pool', 'm1'],
  ['node get n1', 'GET /nodes/n1', node, 'n1', 'vllm'],
  ['gateway get gw-1', 'GET /gateways/gw-1', gateway, 'gw-1', 'SYNCED'],
  ['status', 'GET /status', { log: 'log-1', ...at7 }, 'log-1', '7'],
  ['limits show --org acme', 'GET /organisations/acme/limits', limitUse('acme', 'Pro'), 'acme', 'Pro'],
  ['limits show --visitors', 'GET /limits/visitors', limitUse(null, 'anonymous'), 'visitors', 'anonymous'],
  [
    'usage show --org acme --period 2026-11-01',
    'GET /usage?organisation=acme&period=2026-11-01',
    {
      organisation: 'acme',
      totalTokens: 9,
      requests: 2,
      models: [{ model: 'm1', totalTokens: 9 }],
      ...{ period: '2026-11-01', periods: ['2026-11-01'], allowance: null, countedTokens: null },
    },
    'acme',
    'm1',
  ],
  [
    'usage show --visitors',
    'GET /usage/visitors',
    { visitors: { day: { requests: 3 }, month: { requests: 41 } }, ...at7 },
    'visitors',
    '41',
  ],
];

const writes: Case[] = [
  [
    'usage adjust --org acme --tokens -500 --why failed',
    'POST /organisations/acme/usage-adjustments?why=failed',
    { organisation: 'acme', period: '2026-11-01', adjustedTokens: -500 },
    'acme',
    'usage acme adjusted at position 7',
    { tokens: -500 },
  ],
  [
    'org create acme --name Acme --tier Pro --anchor 2026-11-01',
    'POST /organisations',
    organisation,
    'acme',
    'organisation acme created at position 7',
    { id: 'acme', name: 'Acme', tier: 'Pro', anchor: '2026-11-01' },
  ],
  ['org set acme --tier Max', 'PATCH /organisations/acme', organisation, 'acme', 'changed', { tier: 'Max' }],
  ['org set acme --no-tier', 'PATCH /organisations/acme', organisation, 'acme', 'changed', { tier: null }],
  [
    'org suspend acme --why unpaid',
    'PATCH /organisations/acme?why=unpaid',
    organisation,
    'acme',
    'suspended',
    { suspended: true },
  ],
  ['org resume acme', 'PATCH /organisations/acme', organisation, 'acme', 'resumed', { suspended: false }],
  ['org delete acme --yes --force', 'DELETE /organisations/acme?force=true', organisation, 'acme', 'deleted'],
  [
    'member set acme ana --role owner',
    'PUT /organisations/acme/members/ana',
    member,
    'ana',
    'owner of acme',
    { role: 'owner' },
  ],
  ['member remove acme ana -y', 'DELETE /organisations/acme/members/ana', member, 'ana', 'removed'],
  ['tier delete Pro -y', 'DELETE /tiers/Pro', tier, 'Pro', 'deleted'],
  [
    'gateway forget gw-1 -y',
    'DELETE /gateways/gw-1',
    { name: 'gw-1', forgotten: 1 },
    'gw-1',
    'gateway gw-1 forgotten',
  ],
  ['model delete m1 -y', 'DELETE /models/m1', model, 'm1', 'deleted'],
  ['key revoke key-1 -y', 'POST /keys/key-1/revoke', key, 'key-1', 'revoked at position 7'],
  [
    'stack create --org acme --surface anthropic',
    'POST /stacks',
    stack,
    'stk-a-b-1',
    'created',
    { organisation: 'acme', surface: 'anthropic' },
  ],
  [
    'stack install stk-a-b-1 org/m',
    'PUT /stacks/stk-a-b-1/models/org%2Fm',
    stack,
    'stk-a-b-1',
    'org/m installed',
  ],
  ['stack uninstall stk-a-b-1 m1', 'DELETE /stacks/stk-a-b-1/models/m1', stack, 'stk-a-b-1', 'uninstalled'],
  [
    'stack surface stk-a-b-1 anthropic',
    'PUT /stacks/stk-a-b-1/surface',
    stack,
    'stk-a-b-1',
    'anthropic',
    { surface: 'anthropic' },
  ],
  ['stack delete stk-a-b-1 -y', 'DELETE /stacks/stk-a-b-1', stack, 'stk-a-b-1', 'deleted'],
  ['pool install m1', 'PUT /pool/models/m1', { models: ['m1'] }, 'm1', 'installed'],
  ['pool uninstall m1', 'DELETE /pool/models/m1', { models: [] }, 'm1', 'uninstalled'],
  [
    'node register n1 --place stack:stk-a-b-1 --url http://n1 --dialect vllm --agent --credential A --served org/m:1=m --served x=y=z',
    'POST /nodes',
    node,
    'n1',
    'registered',
    {
      id: 'n1',
      place: { kind: 'stack', id: 'stk-a-b-1' },
      url: 'http://n1',
      dialect: 'vllm',
      agent: true,
      credential: 'A',
      models: { 'org/m:1': 'm', x: 'y=z' },
    },
  ],
  ['node drain n1', 'POST /nodes/n1/drain', node, 'n1', 'drained'],
  ['node undrain n1', 'POST /nodes/n1/undrain', node, 'n1', 'undrained'],
  ['node remove n1 -y', 'DELETE /nodes/n1', node, 'n1', 'removed'],
  ['node token revoke tok-1 -y', 'POST /tokens/tok-1/revoke', token, 'tok-1', 'revoked'],
];

function calls(): string[] {
  return server.seen.map(({ method, path, query }) => {
    const text = new URLSearchParams(query).toString();
    return `${method} ${path}${text && `?${text}`}`;
  });
}

async function inEachFormat(
  [line, call, , name, inTable]: Case,
  {
    body,
    answer,
    shown = answer,
    isAlone = true,
  }: { body?: Fields | undefined; answer: Fields; shown?: Fields; isAlone?: boolean },
): Promise<void> {
  const own = (call.split(' ')[1] ?? '').split('?')[0] ?? '';
  server.answer = ({ path }) => ({ body: path === own ? answer : (others[path] ?? answer) });
  const argv = line.split(' ');
  const json = await cli([...argv, '-o', 'json']);
  expect(json).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(json.out)).toEqual(shown);
  expect(calls().filter((each) => each === call || isAlone)).toEqual([call]);
  expect(server.seen[0]?.body).toEqual(body);
  expect(server.seen[0]?.headers.authorization).toBe(`Bearer ${testToken}`);
  const yaml = await cli(['-o', 'yaml', ...argv]);
  expect(parse(yaml.out)).toEqual(shown);
  expect(await cli([...argv, '-o', 'name'])).toMatchObject({ code: 0, out: `${name}\n` });
  const table = await cli(argv);
  expect(table.code).toBe(0);
  expect(table.out).toContain(inTable);
}

test.each(lists)('list command: %s', async (...entry) => {
  const [line, , answer, , , extra] = entry;
  const shown = { ...answer, ...extra };
  const isAlone = extra === undefined;
  const listOf = (item: Fields): Fields => ({ items: [item], position: 7 });
  await inEachFormat(entry, { answer: listOf(answer), shown: listOf(shown), isAlone });
  const lines = await cli([...line.split(' '), '-o', 'jsonl']);
  expect(lines.out).toBe(`${JSON.stringify(shown)}\n`);
  server.answer = () => ({ body: { items: [], position: 7 } });
  expect((await cli([...line.split(' '), '-o', 'name'])).out).toBe('');
});

test.each(things)('command for a single resource: %s', async (...entry) => {
  const [, , answer, , , extra] = entry;
  await inEachFormat(entry, { answer, shown: { ...answer, ...extra }, isAlone: extra === undefined });
});

test.each(writes)('command that writes: %s', async (...entry) => {
  const [, , answer, , , body] = entry;
  await inEachFormat(entry, { body, answer: { ...answer, ...at7 } });
  expect(
    server.seen.every(({ headers }) => /^[A-Za-z0-9._-]{8,64}$/.test(String(headers['idempotency-key']))),
  ).toBe(true);
  const keys = server.seen.map(({ headers }) => headers['idempotency-key']);
  expect(new Set(keys).size).toBe(keys.length);
});

test('global options reach the control plane', async () => {
  server.answer = () => ({ body: { ...organisation, ...at7 } });
  const line = 'org resume acme --as ana --if-at 6 --dry-run --force --why paid';
  const { out } = await cli(line.split(' '));
  expect(out).toBe('organisation acme would be resumed\n');
  expect(server.seen[0]?.headers).toMatchObject({ 'x-headgate-as': 'ana', 'if-match': '"6"' });
  expect(server.seen[0]?.query).toEqual({ dryRun: 'true', force: 'true', why: 'paid' });
});

test('member invite prints only the link on stdout, and its effect on stderr', async () => {
  const url = 'http://console/sign-in#invitation.x';
  server.answer = () => ({ body: { url, expiresAt: '2026-12-01T00:00:00Z' } });
  const run = await cli(['member', 'invite', '--org', 'acme', '--role', 'viewer', '--expires', '60s']);
  expect(run).toMatchObject({ code: 0, out: `${url}\n` });
  expect(run.err).toContain('makes one person viewer of acme, until 2026-12-01');
  expect(calls()).toEqual(['POST /organisations/acme/invitations']);
  expect(server.seen[0]?.body).toEqual({ role: 'viewer', seconds: 60 });
});

test('a page that is not the last one tells how to continue', async () => {
  server.answer = () => ({ body: { items: [organisation], next: 'abc', total: 7, position: 7 } });
  const { err } = await cli(['org', 'list', '--limit', '1']);
  expect(err).toContain('there are 7; the next ones: --after abc');
});

/** Answers with pages of up to two keys, of five in total. */
function pagesOfKeys({ path, query }: SeenRequest): TestAnswer {
  if (path === '/usage/keys') return { body: { items: [] } };
  const from = Number(query['after'] ?? 0);
  const items = [1, 2, 3, 4, 5].slice(from, from + Math.min(2, Number(query['limit'])));
  const end = from + items.length;
  const next = end < 5 ? { next: String(end) } : {};
  const names = items.map((n) => ({ ...key, id: `key-${n}`, name: 'n'.repeat(n) }));
  return { body: { items: names, ...next, total: 5, position: 7 } };
}

test('a list is read page by page, and each page is printed on arrival', async () => {
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
  expect(lines.map((line) => line.split(/ +/)[0]).join(' ')).toBe('ID key-1 key-2 key-3 key-4 key-5');
  expect(table.err).toBe('');
  expect((await cli(['key', 'list', '-o', 'name'])).out).toBe('key-1\nkey-2\nkey-3\nkey-4\nkey-5\n');
  const document = JSON.parse((await cli(['key', 'list', '-o', 'json'])).out);
  expect([document.items.length, document.total, document.next]).toEqual([5, 5, undefined]);
});

test('--limit covers all pages together', async () => {
  server.answer = pagesOfKeys;
  const { out, err } = await cli(['key', 'list', '--limit', '3', '-o', 'name']);
  expect(out).toBe('key-1\nkey-2\nkey-3\n');
  expect(err).toContain('there are 5; the next ones: --after 3');
  expect(calls()).toEqual(['GET /keys?limit=3', 'GET /keys?limit=1&after=2']);
});

test('a drain reports what is still in flight', async () => {
  server.answer = () => ({ body: { ...node, inFlight: 3, ...at7 } });
  const { out, err } = await cli(['node', 'drain', 'n1']);
  expect([out, err]).toEqual([
    'node n1 drained at position 7\n',
    '3 in flight; headgate node get n1 shows when it is empty\n',
  ]);
});

test('a write that changes nothing prints unchanged', async () => {
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
])('%s keeps everything that it does not name', async (line, present, sent) => {
  server.answer = () => ({ body: { ...present, ...at7 } });
  expect((await cli(line.split(' '))).code).toBe(0);
  expect(server.seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'PUT']);
  expect(server.seen[2]).toMatchObject({ body: sent, headers: { 'if-match': '"7"' } });
});

test('someone else’s simultaneous change is kept', async () => {
  let [position, requestsPerMinute] = [7, 60];
  server.answer = ({ method, headers }) => {
    if (method === 'GET') return { body: { ...tier, requestsPerMinute, position } };
    if (headers['if-match'] === '"8"') return { body: { ...tier, position: 9 } };
    [position, requestsPerMinute] = [8, 90];
    return errorAnswer(409, 'PositionMoved');
  };
  expect((await cli(['tier', 'set', 'Pro', '--concurrency', '4'])).code).toBe(0);
  const puts = server.seen.filter(({ method }) => method === 'PUT').map(({ body }) => body);
  expect(puts).toMatchObject([{ requestsPerMinute: 60 }, { requestsPerMinute: 90, concurrency: 4 }]);
  server.seen.length = 0;
  expect((await cli(['tier', 'set', 'Pro', '--concurrency', '4', '--if-at', '7'])).code).toBe(6);
  expect(server.seen.filter(({ method }) => method === 'PUT')).toHaveLength(1);
});

test.each([
  ['tier set New --models a,b', { models: ['a', 'b'] }],
  ['model set new --family echo', { family: 'echo' }],
])('%s creates a missing resource', async (line, sent) => {
  server.answer = ({ method, path }) =>
    method === 'GET' && path !== '/status'
      ? { status: 404, body: { error: { type: 'NotFound' } } }
      : { body: at7 };
  expect((await cli(line.split(' '))).code).toBe(0);
  expect(server.seen.at(-1)).toMatchObject({ body: sent, headers: { 'if-match': '"7"' } });
});

test.each(['tier set New --concurrency 1', 'model set new --weight 1', 'org set acme'])(
  '%s is refused because something is missing',
  async (line) => {
    server.answer = ({ path }) =>
      path === '/status' ? { body: at7 } : { status: 404, body: { error: { type: 'NotFound' } } };
    expect((await cli(line.split(' '))).code).toBe(2);
    expect(server.seen.filter(({ method }) => method !== 'GET')).toEqual([]);
  },
);

test('events list follows pages to the end, and --limit ends it earlier', async () => {
  const pages: Record<string, object> = {
    '1': { items: [{ position: 1 }, { position: 2 }], position: 4, nextFrom: 3 },
    '3': { items: [{ position: 3 }, { position: 4 }], position: 4 },
  };
  server.answer = ({ query }) => ({ body: pages[query['from'] ?? '1'] });
  const all = await cli(['events', 'list', '-o', 'json']);
  expect(JSON.parse(all.out)).toEqual({ items: [1, 2, 3, 4].map((position) => ({ position })), position: 4 });
  expect((await cli(['events', 'list', '--from', '1', '--limit', '3', '-o', 'name'])).out).toBe('1\n2\n3\n');
});

test('events list reports where a truncated history begins, and what helps', async () => {
  const cut = { historyFrom: 4000, historyNext: 'raise --history-gigabytes' };
  server.answer = () => ({ body: { items: [], position: 4200, ...cut } });
  const { code, err } = await cli(['events', 'list', '--newest']);
  expect([code, err]).toEqual([0, expect.stringMatching(/from position 4000 on.*--history-gigabytes/)]);
});

test('usage export passes lines on unchanged', async () => {
  server.answer = () => ({ bytes: Buffer.from('{"n":1}\n{"n":2}\n') });
  const run = await cli(['usage', 'export', '--org', 'acme', '--from', '2026-11-01', '--to', '2026-12-01']);
  expect(run).toMatchObject({ code: 0, out: '{"n":1}\n{"n":2}\n' });
  expect(calls()).toEqual(['GET /usage/export?organisation=acme&from=2026-11-01&to=2026-12-01']);
});

test('usage export reports from which day it is complete if earlier days are requested', async () => {
  const headers = { 'x-headgate-complete-from': '2026-10-25' };
  server.answer = () => ({ headers, bytes: Buffer.from('{"n":1}\n') });
  const all = await cli(['usage', 'export']);
  expect([all.out, all.err]).toEqual(['{"n":1}\n', expect.stringContaining('complete from 2026-10-25 on')]);
  expect((await cli(['usage', 'export', '--from', '2026-10-25'])).err).toBe('');
});
