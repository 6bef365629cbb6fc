/**
 * Tests that pages of the origins that an operator has named may call the API and read its answers, on every host. For all
 * other origins, answers must be byte for byte those of a gateway without named origins.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, type Call, call, chatBody } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';

const named = 'https://app.example.com';
const origins = [named, 'http://localhost:5173', 'app://notes'];
let fleet: TestFleet;
let key: string;
beforeAll(async () => {
  fleet = await startFleet({
    fleet: specFleet,
    gateway: { corsOrigins: new Set(origins) },
  });
  key = (await fleet.key('acme')).value;
  await fleet.settle();
});
afterAll(() => fleet.close());

const corsNames = (answer: Answer): string[] =>
  Object.keys(answer.fields).filter((name) => name.startsWith('access-control-') || name === 'vary');

/** Returns the answer without the parts that differ between any two answers. */
function comparable({ status, fields, content }: Answer): object {
  const { date: _date, 'x-request-id': _id, ...rest } = fields;
  const { id: _answerId, created: _created, ...body } = content === '' ? {} : JSON.parse(content);
  return { status, fields: rest, body };
}

const hosts = [undefined, stackHost('otter'), stackHost('missing'), 'unknown.test'];
const requests: readonly [string, Omit<Call, 'port'>][] = [
  ['a listing', {}],
  ['a chat', { method: 'POST', path: '/v1/chat/completions', body: chatBody('echo-large') }],
  ['a chat without a key', { method: 'POST', path: '/v1/chat/completions', body: {}, headers: {} }],
  ['a refused path', { path: '/v1/nothing' }],
];
const asked = (request: Omit<Call, 'port'>, headers: Readonly<Record<string, string>>, host?: string) =>
  call({
    ...{ port: fleet.port(), ...(request.headers === undefined && { key }), ...request, headers },
    ...(host !== undefined && { host }),
  });

test.each(requests)('%s is answered to a page of each named origin, on every host', async (_, request) => {
  for (const host of hosts)
    for (const origin of origins) {
      const plain = comparable(await asked(request, {}, host));
      const answer = await asked(request, { Origin: origin }, host);
      expect(answer.fields).toMatchObject({
        'access-control-allow-origin': origin,
        'access-control-expose-headers': 'x-request-id, request-id, retry-after, x-should-retry',
        vary: 'origin',
      });
      expect(corsNames(answer)).toHaveLength(3);
      const rest = Object.entries(answer.fields).filter(([name]) => !corsNames(answer).includes(name));
      expect(comparable({ ...answer, fields: Object.fromEntries(rest) })).toEqual(plain);
    }
});

const unnamed = [
  'https://evil.example',
  'null',
  '*',
  `${named}/`,
  `${named}.evil.example`,
  'https://app.example.com:8443',
  'http://app.example.com',
  'HTTPS://APP.EXAMPLE.COM',
  `${named}, ${named}`,
  '',
];

test.each(unnamed)('an unnamed origin, %j, is answered as if there were no origin', async (origin) => {
  for (const [, request] of requests)
    for (const headers of [{}, { 'Access-Control-Request-Method': 'POST' }]) {
      const methods = request.method === undefined ? ['GET', 'OPTIONS'] : [request.method, 'OPTIONS'];
      for (const method of methods) {
        const body = method === 'POST' ? request.body : undefined;
        const one = { ...request, method, body };
        const answer = await asked(one, { ...headers, Origin: origin });
        expect(corsNames(answer)).toEqual([]);
        expect(comparable(answer)).toEqual(comparable(await asked(one, headers)));
      }
    }
});

const preflight = { Origin: named, 'Access-Control-Request-Method': 'POST' };

test('a preflight needs no key and gets the same bytes for every host and path', async () => {
  const answers = [];
  for (const host of hosts)
    for (const path of ['/v1/chat/completions', '/v1/nothing', '/'])
      for (const headers of [preflight, { ...preflight, Authorization: `Bearer ${key}` }])
        answers.push(
          await call({ port: fleet.port(), method: 'OPTIONS', path, headers, ...(host && { host }) }),
        );
  const seen = new Set(answers.map(({ text }) => text.replace(/^date: .*$/im, '')));
  expect(seen.size).toBe(1);
  const [first] = answers;
  expect([first?.status, first?.content]).toEqual([204, '']);
  expect(first?.fields).toMatchObject({
    'access-control-allow-origin': named,
    'access-control-allow-methods': 'GET, HEAD, POST',
    'access-control-allow-headers': 'authorization, *',
  });
  expect(Object.keys(first?.fields ?? {})).not.toContain('access-control-allow-credentials');
});

test('OPTIONS without a preflight is 404, even for a page', async () => {
  const answer = await asked({ method: 'OPTIONS', path: '/v1/models' }, { Origin: named });
  expect(answer.status).toBe(404);
});

test('neither the admin API nor metrics answer a page, whatever origin is named', async () => {
  const [gateway] = fleet.gateways;
  for (const url of [fleet.controlPlane.admin, gateway?.metrics ?? '']) {
    const port = Number(new URL(url).port);
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await call({
        port,
        host: `127.0.0.1:${port}`,
        method,
        path: '/livez',
        headers: preflight,
      });
      expect(corsNames(answer).filter((name) => name !== 'vary')).toEqual([]);
    }
  }
});
