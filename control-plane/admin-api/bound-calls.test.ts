/**
 * Tests the bounds on open calls: one bound for each caller, one for all members of an organisation, and a part that is
 * reserved for operators.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { OpenCall } from '../../schemas/admin/admin-row.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { publish, reportOf } from '../../test/support/status-reports.ts';
import { until } from '../../test/support/until.ts';
import { OpenCalls, openCallBounds } from '../state/open-calls.ts';

const kinds = Object.keys(openCallBounds) as OpenCall[];

/** Opens calls until one is refused. Returns the number opened, the refusal's type, and functions that end the calls. */
function fill(
  calls: OpenCalls,
  kind: OpenCall,
  caller: (n: number) => Parameters<OpenCalls['begin']>[1],
  of: string[],
) {
  const ends: (() => void)[] = [];
  for (;;) {
    try {
      ends.push(calls.begin(kind, caller(ends.length), of, () => undefined));
    } catch (error) {
      return { count: ends.length, type: (error as { type: string }).type, ends };
    }
  }
}

test.each(kinds)('%s: no person, operator session or organisation may exceed its share', (kind) => {
  const { perCaller, total, forOperators } = openCallBounds[kind];
  const members = total - forOperators;
  const calls = new OpenCalls();
  const session = fill(calls, kind, () => ({ session: 's' }), []);
  expect([session.count, session.type]).toEqual([perCaller, 'TooManyRequests']);
  for (const end of session.ends) end();
  const person = fill(calls, kind, (n) => ({ person: 'vic', session: `s-${n}` }), ['acme']);
  expect([person.count, person.type]).toEqual([perCaller, 'TooManyRequests']);
  const organisation = fill(calls, kind, (n) => ({ person: `p-${n}` }), ['acme']);
  expect([perCaller + organisation.count, organisation.type]).toEqual([members / 2, 'TooManyRequests']);
  // A member of a second organisation can still open a call, although the first organisation is full.
  calls.begin(kind, { person: 'mia' }, ['acme', 'birch'], () => undefined)();
  const operators = fill(calls, kind, (n) => ({ session: `o-${n}` }), []);
  expect([operators.count, operators.type]).toEqual([members / 2 + forOperators, 'Busy']);
  for (const { ends } of [session, person, organisation, operators])
    for (const end of [...ends, ...ends]) end();
  expect(calls.count(kind)).toBe(0);
});

test.each(kinds)(
  '%s: if none is free, each organisation without one still gets one, and nobody loses the last',
  (kind) => {
    const { total, forOperators } = openCallBounds[kind];
    const members = total - forOperators;
    const calls = new OpenCalls();
    const held = new Map<string, number>();
    const open = (organisation: string, n: number): void => {
      const move = (by: number) => held.set(organisation, (held.get(organisation) ?? 0) + by);
      calls.begin(kind, { person: `${organisation}-${n}` }, [organisation], () => move(-1));
      move(1);
    };
    const taken = (): number => [...held.values()].reduce((sum, count) => sum + count, 0);
    // Lets a few organisations open as many calls as they are allowed.
    for (let at = 0; taken() < members; at++)
      for (let n = 0; n < members && taken() < members; n++)
        try {
          open(`greedy-${at}`, n);
        } catch {
          break;
        }
    for (let n = held.size; n < members; n++) open(`new-${n}`, 0);
    expect(taken()).toBe(members);
    expect([...held.values()].every((count) => count === 1)).toBe(true);
    expect(() => open('late', 0)).toThrow('are open on this replica');
    expect(calls.count(kind)).toBe(members);
  },
);

let plane: TestControlPlane;
beforeAll(async () => {
  plane = await startControlPlaneAlone({ console: { bind: '127.0.0.1', port: 0, hosts: [], demo: true } });
  await plane.admin.apply({
    version: 1,
    models: [{ id: 'm', family: 'f', weight: 1 }],
    tiers: [{ id: 'Pro', models: '*' }],
    organisations: [
      { id: 'acme', name: 'Acme', tier: 'Pro', members: [{ person: 'vic', role: 'viewer' as const }] },
    ],
  });
  // A gateway that confirms nothing keeps calls open that wait for a confirmation.
  const log = await openLog(`sqlite:${join(plane.dir, 'log')}`, { topic: statusTopic });
  const { log: id } = await plane.admin.call('GET', '/status');
  await publish(
    log,
    reportOf({ log: String(id), applied: 0, stalePolicy: 'serve' }),
    new StatusMac(operatorToken),
  );
  await log.close();
});
afterAll(() => plane?.close());

async function signIn(body: object): Promise<string> {
  const answer = await fetch(`${plane.console}/api/session`, {
    method: 'POST',
    headers: { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await answer.text();
  return answer.headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';
}
const get = (path: string, cookie: string, signal: AbortSignal): Promise<Response> =>
  fetch(`${plane.console}/api${path}`, { headers: { cookie }, signal });

test.each([
  ['page streams', 50, '/stream', '/stream'],
  ['request streams', 10, '/requests/stream?organisation=acme', '/requests/stream?organisation=acme'],
  ['waits', 20, '/confirmations/999', '/confirmations/999?timeoutSeconds=0'],
])(
  '%s: a viewer gets a few, the operator always gets one, and disconnecting frees the place',
  async (_what, places, path, probe) => {
    const [viewer, operator] = [await signIn({ demo: 'vic' }), await signIn({ operatorToken })];
    const statusOf = async (cookie: string): Promise<number> => {
      const client = new AbortController();
      const { status } = await get(probe, cookie, client.signal);
      client.abort();
      return status;
    };
    const client = new AbortController();
    // A probe takes a place itself for a moment, so a refused caller must try again.
    const hold = async (): Promise<void> => {
      while (!client.signal.aborted) {
        const answer = await get(path, viewer, client.signal).catch(() => undefined);
        if (answer?.status !== 429) return;
        await answer.text();
      }
    };
    const held = Array.from({ length: places }, hold);
    await until(async () => (await statusOf(viewer)) === 429);
    expect(await statusOf(operator)).toBe(200);
    client.abort();
    await Promise.all(held);
    await until(async () => (await statusOf(viewer)) === 200);
  },
);

test('programs may follow a hundred streams, and one more when one of them ends', async () => {
  const url = `${plane.url.replace('http', 'ws')}/admin/v1/events/stream?from=1`;
  const open = async (): Promise<WebSocket | undefined> => {
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${operatorToken}` } });
    const isOpen = once(socket, 'open').then(
      () => true,
      () => false,
    );
    return (await isOpen) ? socket : undefined;
  };
  const sockets = await Promise.all(Array.from({ length: openCallBounds.tail.total }, open));
  expect(sockets.every((socket) => socket !== undefined)).toBe(true);
  expect(await open()).toBeUndefined();
  sockets[0]?.terminate();
  await until(async () => {
    const more = await open();
    sockets.push(more);
    return more !== undefined;
  });
  for (const socket of sockets) socket?.terminate();
});

test('only an operator may ask about visitors, in any form of the question', async () => {
  const { id: key } = await plane.admin.createKey('acme', 'own');
  const counters = { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 };
  const record = {
    ...{ v: 1, req: `req_${'0'.repeat(32)}`, at: Date.now(), gateway: 'g', position: 0, stage: 'admission' },
    ...{ operation: 'chat', host: 'shared', model: 'm', promptTokens: 1, counted: 'bound', counters },
    ...{ served: true, status: 200, ms: { end: 1 } },
  };
  const forms: readonly (readonly [object, number, number])[] = [
    [{ visitor: true, model: 'm' }, 403, 200],
    [{ record: { ...record, visitor: 'v-x' } }, 403, 200],
    [{ record: { ...record, key, visitor: 'v-x' } }, 400, 400],
    [{ record: { ...record, key, organisation: 'acme', visitor: 'v-x' } }, 400, 400],
    [{ key, visitor: true, model: 'm' }, 400, 400],
    [{ organisation: 'acme', visitor: true, model: 'm' }, 400, 400],
    [{ record: { ...record, key } }, 200, 200],
    [{ key, model: 'm' }, 200, 200],
  ];
  for (const [form, asMember, asOperator] of forms)
    for (const [person, expected] of [
      ['vic', asMember],
      [undefined, asOperator],
    ] as const) {
      const answer = await askAdmin(plane.url, '/explain', { body: form, as: person });
      const text = await answer.text();
      expect([form, person, answer.status, text.includes('anonymous') && person !== undefined]).toEqual([
        form,
        person,
        expected,
        false,
      ]);
    }
});
