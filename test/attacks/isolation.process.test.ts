/**
 * Calls every route that a control plane registers, on the admin API and on the console, as every kind of caller. Each call
 * names another organisation in its path, query or body, in the present or in the past. No answer may contain data of that
 * organisation or be a server error, and nothing may be written.
 */
import { Agent, request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import { roleSchema } from '../../schemas/names.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { completion, consoleCookie } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { type Belongings, type CrawlRequest, requestsTo } from './crawl.ts';
import { type Route, watchRoutes } from './registered-routes.ts';

const gatewayToken = 'gateway-token-of-the-crawl';
const foreign = { organisation: 'alder', name: 'Alderworks', person: 'olivia', key: 'key-of-alderworks' };
const stack = 'stk-foreign-heron-4m7q';
const node = 'foreign-node-1';
const model = 'echo-small';
const home = 'birch';
const persons = roleSchema.options.map((role) => ({ person: `ben-${role}`, role }));

const watched = watchRoutes();
const agent = new Agent({ keepAlive: true, maxSockets: 4 });
let fleet: TestFleet;
let own: Belongings;
let words: readonly string[];
let nodeToken = '';

beforeAll(async () => {
  const addresses = () => ({ shared: 'http://api.test', stacks: { [stack]: 'http://foreign.test' } });
  fleet = await startFleet({
    fleet: (urls) => {
      const nodeAt = (id: string, url: string) => ({ id, url, dialect: 'vllm' as const });
      return {
        version: 1,
        models: [{ id: model, family: 'echo' }],
        tiers: [{ id: 'Wide', models: '*' }],
        pool: { models: [model], nodes: [nodeAt('pool-1', urls['pool-1'])] },
        anonymous: { freeTurns: 5, models: [model] },
        organisations: [
          {
            ...{ id: foreign.organisation, name: foreign.name, tier: 'Wide' },
            members: [{ person: foreign.person, role: 'owner' }],
            nodes: [nodeAt('foreign-own-1', urls['acme-1'])],
            stacks: [{ id: stack, models: [model], nodes: [nodeAt(node, urls['birch-s1'])] }],
          },
          { id: home, name: 'Birch', tier: 'Wide', members: persons },
        ],
      };
    },
    controlPlane: {
      gatewayToken,
      console: { bind: '127.0.0.1', port: 0, hosts: [], addresses },
    },
    gateway: { gatewayToken },
  });
  watched.stop();
  const { admin } = fleet;
  const early = await admin.position();
  const { id, value } = await admin.createKey(foreign.organisation, foreign.key);
  const token = await admin.createNodeToken(node);
  nodeToken = token.value;
  await admin.createKey(home, 'own');
  await fleet.settle();
  const answer = await completion(fleet.gateways[0]?.api ?? '', value, { model });
  await answer.text();
  await until(
    async () => (await admin.call('GET', `/usage?organisation=${foreign.organisation}`)).requests === 1,
  );
  const last = await admin.position();
  own = {
    ...{ organisation: foreign.organisation, person: foreign.person, key: id, stack, node, model },
    ...{ token: token.id, request: answer.headers.get('x-request-id') ?? '' },
    positions: [early, last - 2, last],
  };
  words = [...Object.values(foreign), stack, 'foreign-', id, token.id];
});
afterAll(async () => {
  agent.destroy();
  await fleet?.close();
});

interface Caller {
  readonly name: string;
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly isDry?: true;
}
interface Answer {
  readonly status: number;
  readonly text: string;
}

/** Returns the answer. If it does not end, returns what arrives in its first moments. */
function call(
  { base, headers, isDry }: Caller,
  method: string,
  { path, body }: CrawlRequest,
): Promise<Answer> {
  const streamMs = 100;
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const url = new URL(`${base}${path}`);
    const text = body === undefined ? undefined : JSON.stringify(body);
    if (isDry) url.searchParams.set('dryRun', 'true');
    const sent = {
      ...headers,
      ...(method !== 'GET' && { origin: url.origin, 'content-type': 'application/json' }),
      // Without a length, Node would send the body of a DELETE in a form that the server reads as the next request.
      ...(text !== undefined && { 'content-length': Buffer.byteLength(text) }),
    };
    const asked = request(url, { method, headers: sent, agent }, (response) => {
      const done = (): void =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('latin1') });
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('close', done);
      response.on('error', () => undefined);
      if (response.headers['content-type']?.startsWith('text/event-stream'))
        setTimeout(() => response.destroy(), streamMs);
    });
    asked.setTimeout(20_000, () => asked.destroy(new Error(`${method} ${path} is not answered`)));
    asked.on('error', reject);
    asked.end(text);
  });
}

/** Returns the first messages of a WebSocket on the route, or the status of an answer without an upgrade. */
function upgraded({ base, headers }: Caller, path: string): Promise<Answer> {
  return new Promise((resolve) => {
    let text = '';
    const socket = new WebSocket(`${base.replace('http', 'ws')}${path}`, { headers });
    socket.on('message', (data) => {
      text += String(data);
    });
    socket.on('open', () => setTimeout(() => socket.terminate(), 100));
    socket.on('unexpected-response', (_request, response) => {
      response.resume();
      resolve({ status: response.statusCode ?? 0, text: '' });
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve({ status: 101, text }));
  });
}

const consoleOf = (): string => fleet.controlPlane.console ?? '';
const isOfConsole = ({ url }: Route): boolean => url.startsWith('/api/') || url.startsWith('/oidc/');

/** Routes that only affect the caller's own session. */
const ofTheSession = new Set(['DELETE /api/session']);

async function crawl(
  caller: Caller,
  routes: readonly Route[],
  faultOf: (route: Route, asked: CrawlRequest, answer: Answer) => string | undefined,
): Promise<{ readonly calls: number; readonly faults: readonly string[] }> {
  const before = await fleet.admin.position();
  const faults: string[] = [];
  let calls = 0;
  for (const route of routes) {
    if (ofTheSession.has(`${route.method} ${route.url}`)) continue;
    const ask = async (asked: CrawlRequest): Promise<void> => {
      calls++;
      const answer = await (route.isWebSocket
        ? upgraded(caller, asked.path)
        : call(caller, route.method, asked));
      const fault =
        answer.status >= 500 && answer.status !== 503 ? answer.text : faultOf(route, asked, answer);
      if (fault !== undefined)
        faults.push(
          `${caller.name}: ${route.method} ${asked.path} ${JSON.stringify(asked.body ?? '')}: ${answer.status} ${fault.slice(0, 300)}`,
        );
    };
    await Promise.all(requestsTo(route, own).map(ask));
    const position = await fleet.admin.position();
    if (position !== before) faults.push(`${caller.name}: ${route.method} ${route.url} wrote`);
    if (faults.length > 20) break;
  }
  return { calls, faults };
}

/**
 * Finds data of the other organisation in an answer. A refusal may repeat words of its request, but a successful answer may
 * not.
 */
function leak(_route: Route, { path, body }: CrawlRequest, { status, text }: Answer): string | undefined {
  const asked = decodeURIComponent(path) + JSON.stringify(body ?? '');
  const found = words.filter((word) => text.includes(word) && (status < 300 || !asked.includes(word)));
  return found.length === 0 ? undefined : `has ${found.join(', ')}: ${text}`;
}

test('the crawler knows every route of both listeners', () => {
  const adminRoutes = watched.routes.filter((route) => !isOfConsole(route));
  const consoleRoutes = watched.routes.filter(isOfConsole);
  expect(adminRoutes.length).toBeGreaterThan(70);
  expect(consoleRoutes.length).toBeGreaterThan(70);
  const names = watched.routes.map(({ method, url }) => `${method} ${url}`);
  for (const name of ofTheSession) expect(names).toContain(name);
});

test.each(persons)(
  '$person learns and changes nothing of another organisation through the admin API',
  async ({ person }) => {
    const headers = { authorization: `Bearer ${operatorToken}`, 'x-headgate-as': person };
    const caller = { name: person, base: fleet.controlPlane.admin, headers };
    const { calls, faults } = await crawl(
      caller,
      watched.routes.filter((route) => !isOfConsole(route)),
      leak,
    );
    expect(faults).toEqual([]);
    expect(calls).toBeGreaterThan(300);
  },
);

test.each(persons)(
  '$person learns and changes nothing of another organisation through the console',
  async ({ person }) => {
    const cookie = await consoleCookie(fleet.admin, {
      console: consoleOf(),
      path: `/organisations/${home}/members/${person}/link`,
    });
    const caller = { name: person, base: consoleOf(), headers: { cookie } };
    const { calls, faults } = await crawl(caller, watched.routes.filter(isOfConsole), leak);
    expect(faults).toEqual([]);
    expect(calls).toBeGreaterThan(300);
  },
);

test.each([
  ['a gateway’s token', (): string => gatewayToken, 'gateway'],
  ['a node’s token', (): string => nodeToken, 'node'],
  ['an unknown token', (): string => 'a-token-of-nobody', undefined],
] as const)('%s opens only its own routes', async (name, tokenOf, opens) => {
  const headers = { authorization: `Bearer ${tokenOf()}` };
  const caller = { name, base: fleet.controlPlane.admin, headers };
  const routes = watched.routes.filter((route) => !isOfConsole(route) && route.access !== opens);
  const { faults } = await crawl(caller, routes, (route, asked, answer) =>
    route.access === 'public' || answer.status >= 400 ? leak(route, asked, answer) : 'is answered',
  );
  expect(faults).toEqual([]);
});

test('the console answers signed-out callers only on public routes', async () => {
  const caller = { name: 'nobody', base: consoleOf(), headers: {} };
  const { faults } = await crawl(caller, watched.routes.filter(isOfConsole), (route, asked, answer) =>
    route.access === 'public' || answer.status >= 400 ? leak(route, asked, answer) : 'is answered',
  );
  expect(faults).toEqual([]);
});

test('an operator’s dry runs on any route write nothing and cause no fault', async () => {
  const headers = { authorization: `Bearer ${operatorToken}` };
  const caller = { name: 'operator', base: fleet.controlPlane.admin, headers, isDry: true } as const;
  const routes = watched.routes.filter((route) => !isOfConsole(route) && route.access !== 'node');
  const { faults } = await crawl(caller, routes, () => undefined);
  expect(faults).toEqual([]);
});
