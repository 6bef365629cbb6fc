/** Tests the days and months that limits for visitors use, at the playground's own listener, with a clock that jumps. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';
import { errorOf, openCall, post, type Reply, turnsOf, wholeAnswer } from './page-calls.ts';

const clock = takeClock();
const hourMs = 3600_000;
let fleet: TestFleet;
beforeAll(async () => {
  const anonymous = { freeTurns: 2, networkFactor: 2, models: ['echo-small'] };
  fleet = await startFleet({
    fleet: (urls) => ({ ...specFleet(urls), anonymous }),
    gateways: 2,
    gateway: { whenStale: 'serve', play: { port: 0, hosts: [], trustedProxies: ['127.0.0.1'] } },
  });
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});

interface Call {
  readonly address: string;
  readonly cookie?: string | undefined;
  readonly gateway?: number;
}
const callTo = (path: string, body: object, { gateway = 0, ...from }: Call): Promise<Reply> =>
  post(new URL(path, fleet.gateways[gateway]?.play), body, from);
const call = (path: string, body: object, address: string, cookie?: string): Promise<Reply> =>
  callTo(path, body, { address, cookie });
const turn = { model: 'echo-small', stream: true, messages: [{ role: 'user', content: 'hello' }] };
const chat = (address: string, cookie: string): Promise<Reply> => call('/api/chat', turn, address, cookie);
const left = async (address: string, cookie: string): Promise<number> =>
  turnsOf(await call('/api/visitor', {}, address, cookie)).left;

async function visitorFrom(address: string): Promise<string> {
  const { cookie } = await call('/api/visitor', {}, address);
  expect(cookie).toBeDefined();
  return cookie ?? '';
}

/** Returns the time until just after the start of the next UTC day or month, in ms. */
function msTo(to: 'day' | 'month'): number {
  const now = new Date(clock.now());
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const target = to === 'month' ? Date.UTC(year, month + 1) : Date.UTC(year, month, now.getUTCDate() + 1);
  return target + 1000 - clock.now();
}
const leap = (to: 'day' | 'month'): void => clock.advanceMs(msTo(to));

/** Makes the pool's node send tokens at this interval, or at once. */
async function slow(betweenTokensMs: number | undefined): Promise<void> {
  const fault = { kind: 'latency', firstTokenMs: 1, betweenTokensMs };
  const response = await fetch(new URL('/sim/behaviour', fleet.nodes['pool-1'].url), {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ rules: betweenTokensMs === undefined ? [] : [{ fault }] }),
  });
  expect(response.status).toBeLessThan(300);
}

test('Limits 4, Errors 7: a visitor’s turns are renewed each month, and a network’s each day', async () => {
  // Moves to the first day of a month, so that the next day is in the same month.
  leap('month');
  const address = '203.0.113.7';
  const [one, two, three] = [
    await visitorFrom(address),
    await visitorFrom(address),
    await visitorFrom(address),
  ];
  for (const cookie of [one, one, two, two]) expect((await chat(address, cookie)).status).toBe(200);
  const own = await chat(address, one);
  const shared = await chat(address, three);
  expect([own.status, errorOf(own).message]).toEqual([
    409,
    'The free turns of the anonymous tier are used up. Sign in to continue.',
  ]);
  expect([shared.status, errorOf(shared).message]).toEqual([
    409,
    'Your network has used its free turns of the anonymous tier for today. Sign in to continue.',
  ]);

  leap('day');
  expect([await left(address, one), await left(address, three)]).toEqual([0, 2]);
  expect((await chat(address, one)).status).toBe(409);
  expect((await chat(address, three)).status).toBe(200);

  leap('month');
  expect([await left(address, one), await left(address, three)]).toEqual([2, 2]);
  expect((await chat(address, one)).status).toBe(200);
  expect(await left(address, one)).toBe(1);
});

test('a network’s fourth new visitor must solve work, and the next hour allows three without it', async () => {
  const address = '203.0.113.8';
  for (let n = 0; n < 3; n++) await visitorFrom(address);
  const asked = await call('/api/visitor', {}, address);
  expect([asked.cookie, typeof asked.json['work']]).toEqual([undefined, 'object']);
  clock.advanceMs(hourMs);
  await visitorFrom(address);
});

test('a cookie expires after 35 days on every gateway, and its owner becomes a new visitor', async () => {
  const address = '203.0.113.9';
  const cookie = await visitorFrom(address);
  const statuses = async (): Promise<number[]> => {
    const turns = [0, 1].map((gateway) => callTo('/api/chat', turn, { address, cookie, gateway }));
    return (await Promise.all(turns)).map(({ status }) => status);
  };
  clock.advanceMs(34 * 24 * hourMs);
  expect(await statuses()).toEqual([200, 200]);
  clock.advanceMs(24 * hourMs);
  expect(await statuses()).toEqual([401, 401]);
  for (const gateway of [0, 1]) {
    const renewed = await callTo('/api/visitor', {}, { address, cookie, gateway });
    expect([renewed.cookie === undefined, turnsOf(renewed)]).toEqual([false, { left: 2, limit: 2 }]);
    expect((await callTo('/api/chat', turn, { address, cookie: renewed.cookie, gateway })).status).toBe(200);
  }
});

test('Limits 4: a body held until the next day or month counts there', async () => {
  const address = '203.0.113.10';
  for (const to of ['day', 'month'] as const) {
    const cookie = await visitorFrom(address);
    const url = new URL('/api/chat', fleet.gateways[0]?.play);
    // Lets midnight pass between the head and the body of the request.
    clock.advanceMs(msTo(to) - 1300);
    const held = await openCall(url, turn, { address, cookie }, () => clock.advanceMs(400));
    expect((await wholeAnswer(held)).status).toBe(200);
    const another = await visitorFrom(address);
    expect([to, await left(address, cookie)]).toEqual([to, 1]);
    for (const of of [cookie, another]) expect((await chat(address, of)).status).toBe(200);
    // Three of the network's four turns have been used, all on the same day.
    expect([to, await left(address, another)]).toEqual([to, 1]);
    expect((await chat(address, another)).status).toBe(200);
    expect((await chat(address, await visitorFrom(address))).status).toBe(409);
    leap('day');
  }
});

test('Limits 4: an answer that ends in the next month counts in the month in which it began', async () => {
  const address = '203.0.113.11';
  const cookie = await visitorFrom(address);
  const url = new URL('/api/chat', fleet.gateways[0]?.play);
  await slow(300);
  const short = { ...turn, messages: [{ role: 'user', content: 'say 3 words' }] };
  const begun = await openCall(url, short, { address, cookie });
  const leapMs = msTo('month');
  clock.advanceMs(leapMs);
  expect((await wholeAnswer(begun)).status).toBe(200);
  await slow(undefined);
  expect(await left(address, cookie)).toBe(2);
  clock.advanceMs(-leapMs);
  expect(await left(address, cookie)).toBe(1);
  const another = await visitorFrom(address);
  for (const of of [cookie, another, another]) expect((await chat(address, of)).status).toBe(200);
  expect(errorOf(await chat(address, await visitorFrom(address))).message).toContain(
    'Your network has used its free turns',
  );
  clock.advanceMs(leapMs);
});

test('Events: a stopped answer is no usage and only a network’s turn, but its tokens count for all visitors', async () => {
  leap('month');
  const address = '203.0.113.12';
  const cookie = await visitorFrom(address);
  const anonymous = { freeTurns: 2, networkFactor: 2, models: ['echo-small'] };
  await fleet.admin.call('PUT', '/anonymous', { ...anonymous, total: { tokensPerDay: 100 } });
  await fleet.settle();
  await slow(10_000);
  const long = { ...turn, messages: [{ role: 'user', content: 'word '.repeat(100) }] };
  const url = new URL('/api/chat', fleet.gateways[0]?.play);
  const begun = await openCall(url, long, { address, cookie });
  expect(begun.statusCode).toBe(200);
  begun.on('error', () => undefined).destroy();
  const metrics = new URL('/metrics', fleet.gateways[0]?.metrics);
  const aborted = /^headgate_requests_total\{[^}]*outcome="aborted"[^}]*\} [1-9]/m;
  await until(async () => aborted.test(await (await fetch(metrics)).text()));
  await slow(undefined);
  const refused = await chat(address, cookie);
  expect([refused.status, errorOf(refused).message]).toEqual([
    409,
    'All visitors together have used the tokens of the anonymous tier for today. Sign in to continue.',
  ]);
  await fleet.admin.call('PUT', '/anonymous', anonymous);
  await fleet.settle();
  expect(await left(address, cookie)).toBe(2);
  expect((await chat(address, cookie)).status).toBe(200);
  expect(await left(address, cookie)).toBe(1);
  const month = async () => (await fleet.admin.call('GET', '/usage/visitors')).visitors.month;
  await until(async () => (await month()).requests === 1);
  expect((await month()).totalTokens).toBeLessThan(100);
  // Two of the network's four turns have been used.
  const another = await visitorFrom(address);
  expect((await chat(address, another)).status).toBe(200);
  expect([await left(address, cookie), await left(address, another)]).toEqual([1, 1]);
  expect((await chat(address, another)).status).toBe(200);
  expect(await left(address, cookie)).toBe(0);
});
