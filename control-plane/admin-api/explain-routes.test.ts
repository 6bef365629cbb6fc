/** Tests questions about recorded decisions: each person may ask one at a time, and no person can keep others from asking. */
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { scaledMs } from '../../test/support/budget.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { portOf } from '../../test/support/listen.ts';
import { publish, reportOf } from '../../test/support/status-reports.ts';
import { until } from '../../test/support/until.ts';

const request = `req_${'0'.repeat(32)}`;
/** Questions that the gateway has received but not answered yet. */
const held: ServerResponse[] = [];
let asked = 0;
const gateway = createServer((_request, response) => {
  asked++;
  held.push(response);
});
let plane: TestControlPlane;
beforeAll(async () => {
  const port = await portOf(gateway);
  // The time-out is long, so that held questions end only when they are answered, even on a slow machine.
  const console = { bind: '127.0.0.1', port: 0, hosts: [], demo: true };
  plane = await startControlPlaneAlone({ console, askTimeoutMs: scaledMs(60_000) });
  const people = ['vic', 'vera', 'vlad'];
  await plane.admin.apply({
    ...{ version: 1, models: [], tiers: [{ id: 'Pro', models: '*' }] },
    ...{ anonymous: { freeTurns: 1, models: [] }, pool: { models: [], nodes: [] } },
    organisations: [
      {
        id: 'acme',
        name: 'Acme',
        tier: 'Pro',
        members: people.map((person) => ({ person, role: 'viewer' })),
      },
      {
        ...{ id: 'birch', name: 'Birch', tier: 'Pro' },
        members: [
          { person: 'olga', role: 'owner' },
          { person: 'vic', role: 'viewer' },
        ],
      },
    ],
  });
  const log = await openLog(`sqlite:${join(plane.dir, 'log')}`, { topic: statusTopic });
  const { log: id } = await plane.admin.call('GET', '/status');
  const metrics = `http://127.0.0.1:${port}`;
  await publish(log, reportOf({ log: String(id), metrics }), new StatusMac(operatorToken));
  await log.close();
  await until(async () => {
    const { items } = await plane.admin.call('GET', '/gateways');
    return (items as object[]).length === 1;
  });
});
afterAll(async () => {
  release();
  await plane.close();
  await new Promise((resolve) => gateway.close(resolve));
});

function release(): void {
  for (const response of held.splice(0)) response.writeHead(404).end();
}

async function ask(
  route: 'explain' | 'decision',
  person?: string,
  signal: AbortSignal | null = null,
): Promise<Response> {
  const asked = { as: person, signal };
  if (route === 'decision') return askAdmin(plane.url, `/decisions/${request}`, asked);
  return askAdmin(plane.url, '/explain', { body: { request }, ...asked });
}

test.each(['explain', 'decision'] as const)('%s: a person’s second question waits', async (route) => {
  const from = asked;
  const first = ask(route, 'vic');
  await until(() => asked === from + 1);
  const others = [ask('explain', 'vic'), ask('decision', 'vic')];
  const ofOther = ask(route, 'vera');
  await until(() => asked === from + 2);
  release();
  // A decision that does not exist and a decision of another organisation get the same answer.
  expect([(await first).status, (await ofOther).status]).toEqual([403, 403]);
  for (const at of [3, 4]) {
    await until(() => asked === from + at);
    release();
  }
  for (const answer of await Promise.all(others)) expect(answer.status).toBe(403);
});

test('only a few persons ask at a time and others wait for them, but operators do not', async () => {
  const from = asked;
  const persons = [ask('explain', 'vic'), ask('decision', 'vera')];
  await until(() => asked === from + 2);
  const waiting = ask('explain', 'vlad');
  const operators = [ask('explain'), ask('decision')];
  await until(() => asked === from + 4);
  release();
  for (const answer of await Promise.all(persons)) expect(answer.status).toBe(403);
  for (const answer of await Promise.all(operators)) expect(answer.status).toBe(404);
  await until(() => asked === from + 5);
  release();
  expect((await waiting).status).toBe(403);
});

test.each(['explain', 'decision'] as const)(
  '%s: disconnecting frees the turn, even if no gateway has answered',
  async (route) => {
    const from = asked;
    const client = new AbortController();
    const left = ask(route, 'vic', client.signal);
    await until(() => asked === from + 1);
    client.abort();
    await expect(left).rejects.toThrow();
    const again = ask(route, 'vic');
    await until(() => asked === from + 2);
    release();
    expect((await again).status).toBe(403);
  },
);

/** Calls the console without `fetch`, which does not let callers set Sec-Fetch-Site. */
function inConsole(
  method: string,
  path: string,
  { cookie, body }: { readonly cookie?: string; readonly body?: object } = {},
): Promise<{ readonly status: number | undefined; readonly cookie: string; readonly text: string }> {
  const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const url = new URL(path, plane.console);
    const sent = httpRequest(
      url,
      { method, headers: { ...headers, ...(cookie !== undefined && { cookie }) } },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
        });
        const own = String(response.headers['set-cookie']).split(';', 1)[0] ?? '';
        response.on('end', () => resolve({ status: response.statusCode, cookie: own, text }));
      },
    );
    sent.on('error', reject).end(body && JSON.stringify(body));
  });
}

const signIn = async (body: object): Promise<string> =>
  (await inConsole('POST', '/api/session', { body })).cookie;

test('a person has one question at a time across all listeners', async () => {
  const from = asked;
  const first = ask('decision', 'vic');
  await until(() => asked === from + 1);
  const cookie = await signIn({ demo: 'vic' });
  const second = inConsole('GET', `/api/decisions/${request}`, { cookie });
  const ofOther = ask('decision', 'vera');
  await until(() => asked === from + 2);
  release();
  expect([(await first).status, (await ofOther).status]).toEqual([403, 403]);
  await until(() => asked === from + 3);
  release();
  expect((await second).status).toBe(403);
});

test('a session from another organisation’s link does not block the same person’s questions', async () => {
  const from = asked;
  const path = '/api/organisations/birch/members/vic/link';
  const { text } = await inConsole('POST', path, { cookie: await signIn({ demo: 'olga' }), body: {} });
  const link = String(JSON.parse(text).url).split('#')[1] ?? '';
  const cookie = await signIn({ link });
  const other = inConsole('GET', `/api/decisions/${request}`, { cookie });
  await until(() => asked === from + 1);
  const own = ask('decision', 'vic');
  await until(() => asked === from + 2);
  release();
  expect([(await other).status, (await own).status]).toEqual([403, 403]);
});

test('a person who is not a member asks no gateway', async () => {
  const from = asked;
  for (const route of ['explain', 'decision'] as const) expect((await ask(route, 'nobody')).status).toBe(403);
  expect(asked).toBe(from);
});
