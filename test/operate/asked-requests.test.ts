/**
 * Tests how a control plane collects the requests of several gateways: merged by time, in pages, filtered and followed live,
 * with gateways named that do not answer. Expected results come from a plain model.
 */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { type GatewayFilter, type GivenRow, requestPage } from '../../control-plane/gateways/ask-requests.ts';
import { LiveRequests } from '../../control-plane/gateways/live-requests.ts';
import type { StatusBoard } from '../../control-plane/gateways/status-board.ts';
import { DecisionJournal } from '../../data-plane/records/decision-journal.ts';
import { requestPages } from '../../data-plane/records/read-requests.ts';
import { toRecordedRequest } from '../../data-plane/records/recorded.ts';
import { decisionRoute } from '../../data-plane/records/serve-decisions.ts';
import type { RequestRecord } from '../../data-plane/request/request-record.ts';
import { mintRequestId } from '../../data-plane/surfaces/common/request-id.ts';
import { type GatewayRow, gatewayQuerySchema } from '../../schemas/admin/gateway-requests.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { questionScheme, SignedQuestions } from '../../shared/status/signed-question.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { runs } from '../support/budget.ts';
import { folderOfFile } from '../support/folders.ts';
import { portOf } from '../support/listen.ts';
import { boardOn, publish, reportOf, topic } from '../support/status-reports.ts';
import { until } from '../support/until.ts';

const token = 'the-gateway-token';
const dir = folderOfFile('requests');
const startMs = Date.now() - 3_200_000;
const names = ['gw-1', 'gw-2', 'gw-3'] as const;
const perGateway = 120;
const models = ['elm-7b', 'oak-1b', undefined];
const keys = ['key-1', 'key-2', 'key-3'];
const secret = 'hg_a-secret-of-somebody';

const journals = new Map<string, DecisionJournal>();
/** The expected rows by gateway, in the order in which the requests ended. */
const model = new Map<string, GatewayRow[]>();
let log: ControlLog;
let board: StatusBoard;

/** Returns a gateway's nth request. Over all n, every value of each field is combined with every value of the others. */
function recordOf(n: number, atMs: number): RequestRecord {
  const kind = n % 5;
  const refusal =
    kind < 2
      ? new Refusal(kind === 0 ? 'no such call' : 'not listed by the pool', `no: ${secret}`)
      : undefined;
  const isEarly = kind === 2;
  const usage = { promptTokens: n, completionTokens: 2 * n };
  const node = `node-${n % 4}`;
  const outcome = isEarly
    ? { kind: 'ended-early', node, by: (['client', 'node', 'deadline'] as const)[n % 3], reason: 'gone' }
    : { kind: 'completed', node, usage };
  return {
    ...{ status: refusal?.status ?? 200, startMs: 0, at: { decided: 1, begun: 1 + n }, decidedMs: atMs },
    ids: { requestId: mintRequestId() },
    ...(n % 7 > 0 && {
      caller: { kind: 'key', owner: { organisation: `org-${n % 3}`, keyId: keys[n % 3] } },
    }),
    model: models[n % 3],
    ...{ operation: { kind: 'chat' }, target: { kind: 'shared' }, refusal },
    ...(refusal === undefined && { outcome }),
  } as unknown as RequestRecord;
}

function add(gateway: string, n: number, atMs: number): void {
  const record = recordOf(n, atMs);
  const endMs = 1 + n + 5;
  const moment = { nowMs: atMs, endMs, position: 7, isKnown: () => true };
  journals.get(gateway)?.add(record, toRecordedRequest(record, moment));
}

beforeAll(async () => {
  for (const [at, gateway] of names.entries()) {
    const journal = new DecisionJournal({ folder: join(dir, gateway), gateway, oneIn: 1 });
    journals.set(gateway, journal);
    for (let n = 0; n < perGateway; n++) add(gateway, n, startMs + 3000 * n + 1000 * at);
    await until(() => journal.state.written === perGateway);
    const rows: GatewayRow[] = [];
    for await (const lines of requestPages(journal, gatewayQuerySchema.parse({})))
      rows.push(...lines.map((line) => JSON.parse(line)).filter(({ request }) => request));
    model.set(gateway, rows.toReversed());
    expect(rows).toHaveLength(perGateway);
  }
});
afterAll(async () => {
  for (const journal of journals.values()) await journal.close();
});
beforeEach(async () => {
  log = topic();
  board = await boardOn(log, new StatusMac(token));
  onTestFinished(() => board.stop());
});

/**
 * Serves a gateway's decisions. The returned function stops the server as `kill -9` would, so that nothing is answered any
 * more.
 */
async function serve(name: string, journal = journals.get(name)): Promise<() => Promise<void>> {
  const incarnation = randomUUID();
  const route = decisionRoute(journal, { token, incarnation });
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    route(request, response).catch(() => response.destroy());
  });
  const port = await portOf(server);
  const stop = (): Promise<void> => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  onTestFinished(stop);
  const metrics = `http://127.0.0.1:${port}`;
  await publish(log, reportOf({ name, metrics, incarnation }), new StatusMac(token));
  await board.readToEnd(5000);
  return stop;
}
const serveAll = async () => Promise.all(names.map((name) => serve(name)));

/** The time-out is longer than in production, because no test here is about a slow gateway. */
const sources = () => ({ board, gatewayToken: token, askTimeoutMs: 30_000 });
const never = new AbortController().signal;
const asked = (filter: GatewayFilter = {}, gateway?: string) => ({ filter, gateway });
const allRows = (): GivenRow[] =>
  [...model]
    .flatMap(([gateway, rows]) => rows.map((row) => ({ gateway, row })))
    .sort((one, other) => other.row.endedMs - one.row.endedMs);

async function allPages(filter: GatewayFilter, limit: number, gateway?: string): Promise<GivenRow[]> {
  const found: GivenRow[] = [];
  let from: ReadonlyMap<string, number> | undefined;
  for (let pages = 0; pages < 2000; pages++) {
    const page = await requestPage(
      sources(),
      { ...asked(filter, gateway), limit, from },
      (row) => row,
      never,
    );
    expect(page.silent).toEqual([]);
    found.push(...page.items);
    from = page.next;
    if (from === undefined) return found;
  }
  throw new Error('the pages have no end');
}

/** Request filters, each with a predicate that says which rows it should select. */
const filters: readonly (readonly [GatewayFilter, (row: GatewayRow) => boolean])[] = [
  [{}, () => true],
  [{ outcome: 'served' }, ({ verdict }) => verdict === 'served'],
  [{ outcome: 'refused' }, ({ verdict }) => verdict === 'refused'],
  [{ outcome: 'ended' }, ({ verdict, endedBy }) => verdict === 'ended' && endedBy !== undefined],
  [{ type: 'NotFoundError' }, ({ type }) => type === 'NotFoundError'],
  [{ model: 'elm-7b' }, (row) => row.model === 'elm-7b'],
  // Gateways do not know the owner of a refused key, but the control plane does. So a row with only a key passes the filter.
  [{ organisation: 'org-1' }, (row) => (row.organisation ?? (row.key ? 'org-1' : '')) === 'org-1'],
  [{ key: 'key-2' }, ({ key }) => key === 'key-2'],
  [{ node: 'node-3' }, ({ node }) => node === 'node-3'],
  [{ slowerThanMs: 200 }, ({ durationMs }) => durationMs > 200],
  [{ sinceMs: startMs + 200_000 }, ({ at }) => Date.parse(at) >= startMs + 200_000],
];

test('each filter, and each pair, selects the same rows as a plain model, newest first, in any pages', async () => {
  await serveAll();
  // Combines only filters of different members, because the later of two outcomes would replace the earlier.
  const areApart = (one: GatewayFilter, other: GatewayFilter): boolean =>
    one === other || !Object.keys(one).some((name) => name in other);
  const twos = filters.flatMap((one, at) =>
    filters
      .slice(at)
      .filter((other) => areApart(one[0], other[0]))
      .map((other) => [one, other] as const),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...twos),
      fc.integer({ min: 100, max: 1000 }),
      async ([one, other], limit) => {
        const wanted = allRows().filter(({ row }) => one[1](row) && other[1](row));
        const found = await allPages({ ...one[0], ...other[0] }, limit);
        expect(found.map(({ row }) => row.request)).toEqual(wanted.map(({ row }) => row.request));
      },
    ),
    { numRuns: runs({ fast: 8, full: 40 }) },
  );
});

test('small pages contain each row once, and a gateway’s own page contains its own rows', async () => {
  await serveAll();
  const found = await allPages({ sinceMs: startMs + 330_000 }, 7);
  const wanted = allRows().filter(({ row }) => Date.parse(row.at) >= startMs + 330_000);
  expect(found).toEqual(wanted);
  expect(new Set((await allPages({}, 1000, 'gw-2')).map(({ gateway }) => gateway))).toEqual(
    new Set(['gw-2']),
  );
});

test('a request from an hour ago is found by its id', async () => {
  await serveAll();
  const [oldest] = allRows().slice(-1) as [GivenRow];
  const page = await allPages({ request: oldest.row.request }, 10);
  expect(page.map(({ gateway, row }) => [gateway, row.request])).toEqual([
    [oldest.gateway, oldest.row.request],
  ]);
  expect(await allPages({ request: mintRequestId() }, 10)).toEqual([]);
});

test('no response contains text that a caller sent', async () => {
  await serveAll();
  expect(JSON.stringify(await allPages({}, 1000))).not.toContain(secret);
});

test('a killed, non-recording or unknown gateway is named, and the others’ rows are returned', async () => {
  const [stop] = await Promise.all([serve('gw-1'), serve('gw-2'), serve('gw-off', undefined)]);
  const page = async (gateway?: string, from?: ReadonlyMap<string, number>) =>
    requestPage(sources(), { ...asked({}, gateway), limit: 1000, from }, ({ row }) => row.request, never);
  const both = await page();
  expect([both.items.length, both.silent]).toEqual([2 * perGateway, ['gw-off']]);
  await stop();
  const one = await page();
  expect([one.items.length, one.silent]).toEqual([perGateway, ['gw-1', 'gw-off']]);
  expect(await page('gw-9')).toEqual({ items: [], silent: ['gw-9'] });
  // If a gateway did not answer for the first page, its rows must not appear on later pages.
  await serve('gw-1');
  expect((await page(undefined, new Map([['gw-2', 10]]))).silent).toEqual(['gw-1', 'gw-off']);
});

test('new rows are followed at all gateways by the filter, and a killed or returning gateway is reported', async () => {
  const [stop] = await Promise.all([serve('gw-1'), serve('gw-2')]);
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const live = new LiveRequests().follow(sources(), asked({ outcome: 'served' }), end.signal);
  const seen: GivenRow[] = [];
  let silent: readonly string[] = ['not asked'];
  const following = (async () => {
    for await (const changed of live) {
      seen.push(...changed.rows);
      silent = changed.silent;
    }
  })();
  await until(() => silent.length === 0);
  for (const gateway of ['gw-1', 'gw-2']) for (let n = 0; n < 10; n++) add(gateway, n, Date.now());
  await until(() => seen.length === 8);
  expect(new Set(seen.map(({ gateway }) => gateway))).toEqual(new Set(['gw-1', 'gw-2']));
  await stop();
  await until(() => silent.join() === 'gw-1');
  add('gw-2', 3, Date.now());
  await until(() => seen.length === 9);
  await serve('gw-1');
  await until(() => silent.length === 0);
  end.abort();
  await following;
});

test('streams with the same question read a gateway’s rows once, and one that ends does not disturb others', async () => {
  const gateway = 'gw-1';
  let followers = 0;
  const journal = new Proxy(journals.get(gateway) as DecisionJournal, {
    get: (target, name) => {
      if (name === 'follow') followers++;
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  await serve(gateway, journal);
  const live = new LiveRequests();
  const streams = Array.from({ length: 10 }, () => {
    const end = new AbortController();
    onTestFinished(() => end.abort());
    const stream = { end, rows: 0, isFollowed: false, ended: Promise.resolve() };
    stream.ended = (async () => {
      for await (const { rows, silent } of live.follow(sources(), asked(), end.signal)) {
        stream.rows += rows.length;
        stream.isFollowed = silent.length === 0;
      }
    })();
    return stream;
  });
  await until(() => streams.every(({ isFollowed }) => isFollowed));
  for (let n = 0; n < 10; n++) add(gateway, n, Date.now());
  await until(() => streams.every(({ rows }) => rows === 10));
  const [first, ...others] = streams;
  first?.end.abort();
  await first?.ended;
  for (let n = 0; n < 10; n++) add(gateway, n, Date.now());
  await until(() => others.every(({ rows }) => rows === 20));
  expect(followers).toBe(1);
});

test('if a follower gets too many rows, it gets a sample of all gateways by time, and the rest is counted', async () => {
  await Promise.all([serve('gw-1'), serve('gw-2')]);
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const seen: GivenRow[] = [];
  let missed = 0;
  let isFollowed = false;
  const beganMs = performance.now();
  const live = new LiveRequests();
  const following = (async () => {
    const all = { ...asked({}), rowsPerSecond: 20 };
    for await (const { rows, silent, missed: more } of live.follow(sources(), all, end.signal)) {
      isFollowed ||= silent.length === 0;
      const times = rows.map(({ row }) => row.endedMs);
      expect(times).toEqual(times.toSorted((one, other) => one - other));
      seen.push(...rows);
      missed += more;
    }
  })();
  await until(() => isFollowed);
  const both = new Set(['gw-1', 'gw-2']);
  const seenOf = (): Set<string> => new Set(seen.map(({ gateway }) => gateway));
  // The rows of one gateway may use up the number of rows allowed per moment before the other gateway answers. So keep adding
  // rows until both gateways appear.
  for (let added = 0; seenOf().size < both.size; ) {
    for (let n = 0; n < 400; n++) for (const gateway of both) add(gateway, n % 10, Date.now() + n);
    added += 800;
    await until(() => seen.length + missed === added);
  }
  const seconds = (performance.now() - beganMs) / 1000;
  expect(seen.length).toBeGreaterThan(2);
  expect(seen.length).toBeLessThanOrEqual(20 * seconds + 2);
  expect(seenOf()).toEqual(both);
  end.abort();
  await following;
});

/** Starts a process that has the gateway token and answers every question with the given lines. */
async function serveLines(name: string, lines: () => Iterable<string>): Promise<void> {
  const incarnation = randomUUID();
  const questions = new SignedQuestions(token, incarnation);
  const server = createServer((request, response) => {
    const seal = questions.accept(request.url ?? '', request.headers.authorization ?? '');
    if (seal === undefined) {
      const challenge = `${questionScheme} challenge=${questions.challenge()}`;
      response.writeHead(401, { 'www-authenticate': challenge }).end();
      return;
    }
    const pages = async function* () {
      for (const line of lines()) yield [`${line}\n`];
    };
    pipeline(Readable.from(seal(pages())), response, () => undefined);
  });
  const port = await portOf(server);
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())));
  onTestFinished(() => server.closeAllConnections());
  const metrics = `http://127.0.0.1:${port}/`;
  await publish(log, reportOf({ name, incarnation, metrics }), new StatusMac(token));
  await board.readToEnd(5000);
}

function* endless(line: object): Generator<string> {
  for (;;) yield JSON.stringify(line);
}

const row = {
  ...{ request: `req_${'0'.repeat(32)}`, at: new Date(0).toISOString(), endedMs: 1, host: 'shared' },
  ...{ operation: 'chat', verdict: 'served', status: 200, durationMs: 1, position: 1 },
};

test('the next tests’ row is accepted without their faults', async () => {
  await serveLines('gw-2', () => [JSON.stringify(row), '{}']);
  const all = { ...asked(), limit: 5, from: undefined };
  const { items, silent } = await requestPage(sources(), all, (given) => given.row, never);
  expect([items, silent]).toEqual([[row], []]);
});

test.each([
  ['a row with a long text', () => [JSON.stringify({ ...row, node: 'n'.repeat(301) }), '{}']],
  ['a row without a valid time', () => [JSON.stringify({ ...row, at: 'yesterday' }), '{}']],
  ['endlessly', () => endless({})],
])('a gateway that answers %s counts as silent, and the others’ rows are returned', async (_what, lines) => {
  await serve('gw-1');
  await serveLines('gw-2', lines);
  const all = { ...asked(), limit: 5, from: undefined };
  expect((await requestPage(sources(), all, (given) => given.row, never)).silent).toEqual(['gw-2']);
});
