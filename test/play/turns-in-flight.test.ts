/** Tests that a visitor's turns in flight count as used, so that parallel requests have no advantage over sequential ones. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';
import { openCall, post, type Reply, turnsOf } from './page-calls.ts';

const freeTurns = 4;
let fleet: TestFleet;
beforeAll(async () => {
  const anonymous = { freeTurns, networkFactor: 2, models: ['echo-small'] };
  fleet = await startFleet({
    fleet: (urls) => ({ ...specFleet(urls), anonymous }),
    gateways: 2,
    gateway: { whenStale: 'serve', play: { port: 0, hosts: [], trustedProxies: ['127.0.0.1'] } },
  });
});
afterAll(() => fleet.close());

const turn = { model: 'echo-small', stream: true, messages: [{ role: 'user', content: 'hello' }] };
const urlOf = (path: string, gateway = 0): URL => new URL(path, fleet.gateways[gateway]?.play);
const chat = (address: string, cookie: string, gateway = 0): Promise<Reply> =>
  post(urlOf('/api/chat', gateway), turn, { address, cookie });

async function visitorFrom(address: string): Promise<string> {
  return (await post(urlOf('/api/visitor'), {}, { address })).cookie ?? '';
}
async function left(address: string, cookie: string): Promise<number> {
  return turnsOf(await post(urlOf('/api/visitor'), {}, { address, cookie })).left;
}

async function behave(fault: object | undefined): Promise<void> {
  const response = await fetch(new URL('/sim/behaviour', fleet.nodes['pool-1'].url), {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ rules: fault === undefined ? [] : [{ fault }] }),
  });
  expect(response.status).toBeLessThan(300);
}

const statuses = async (answers: readonly Promise<Reply>[]): Promise<Record<number, number>> => {
  const counts: Record<number, number> = {};
  for (const { status } of await Promise.all(answers)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

test('Limits 4: of one visitor’s forty simultaneous turns, exactly the free turns are answered', async () => {
  const address = '203.0.113.20';
  const cookie = await visitorFrom(address);
  const answers = Array.from({ length: 40 }, () => chat(address, cookie));
  expect(await statuses(answers)).toEqual({ 200: freeTurns, 409: 40 - freeTurns });
  expect(await left(address, cookie)).toBe(0);
});

test('the row of a visitor’s request is marked as a visitor’s', async () => {
  await until(async () => {
    const { items } = await fleet.admin.call('GET', '/requests?outcome=served&limit=1');
    const [row] = items as object[];
    if (row !== undefined) expect(row).toMatchObject({ visitor: true, model: 'echo-small' });
    return row !== undefined;
  });
});

test('Limits 4: on several gateways at once, each answers at most the free turns', async () => {
  const address = '203.0.113.21';
  const cookie = await visitorFrom(address);
  const answers = Array.from({ length: 40 }, (_, n) => chat(address, cookie, n % 2));
  const { 200: answered = 0 } = await statuses(answers);
  expect(answered).toBeGreaterThanOrEqual(freeTurns);
  expect(answered).toBeLessThanOrEqual(2 * freeTurns);
});

test('Limits 4: a network’s visitors together get as many turns as the network has', async () => {
  const address = '203.0.113.22';
  const cookies = [await visitorFrom(address), await visitorFrom(address), await visitorFrom(address)];
  const answers = cookies.flatMap((cookie) => Array.from({ length: freeTurns }, () => chat(address, cookie)));
  expect(await statuses(answers)).toEqual({ 200: 2 * freeTurns, 409: freeTurns });
});

test('Limits 4: a failed turn and a turn stopped by its visitor release their places', async () => {
  const address = '203.0.113.23';
  const cookie = await visitorFrom(address);
  await behave({ kind: 'status', status: 500 });
  for (let n = 0; n < 2 * freeTurns; n++) expect((await chat(address, cookie)).status).toBe(503);
  await behave({ kind: 'latency', firstTokenMs: 1, betweenTokensMs: 10_000 });
  const held = await Promise.all(
    Array.from({ length: freeTurns }, () => openCall(urlOf('/api/chat'), turn, { address, cookie })),
  );
  expect(held.map(({ statusCode }) => statusCode)).toEqual(Array(freeTurns).fill(200));
  expect((await chat(address, cookie)).status).toBe(409);
  for (const answer of held) answer.on('error', () => undefined).destroy();
  await behave(undefined);
  // The gateway learns that a request has ended only a moment later, so the turn is repeated. Refused turns do not count as
  // used.
  let answered = 0;
  await until(async () => {
    if ((await chat(address, cookie)).status === 200) answered++;
    return answered === freeTurns;
  });
  expect((await chat(address, cookie)).status).toBe(409);
});
