/** Periods of visitors, at the playground's own listener, with a clock that leaps. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { type Answered, errorOf, post, turnsOf } from './page-calls.ts';

const clock = takeClock();
const hourMs = 3600_000;
let fleet: TestFleet;
beforeAll(async () => {
  const anonymous = { freeTurns: 2, networkFactor: 2, models: ['echo-small'] };
  fleet = await startFleet({
    fleet: (urls) => ({ ...specFleet(urls), anonymous }),
    gateway: { whenStale: 'serve', play: { port: 0, hosts: [], trustedProxies: ['127.0.0.1'] } },
  });
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});

const call = (path: string, body: object, address: string, cookie?: string): Promise<Answered> =>
  post(new URL(path, fleet.gateways[0]?.play), body, { address, cookie });
const turn = { model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] };
const chat = (address: string, cookie: string): Promise<Answered> => call('/api/chat', turn, address, cookie);
const left = async (address: string, cookie: string): Promise<number> =>
  turnsOf(await call('/api/visitor', {}, address, cookie)).left;

async function visitorFrom(address: string): Promise<string> {
  const { cookie } = await call('/api/visitor', {}, address);
  expect(cookie).toBeDefined();
  return cookie ?? '';
}

/** To the first moments of the next UTC day or month. */
function leap(to: 'day' | 'month'): void {
  const now = new Date(clock.now());
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const target = to === 'month' ? Date.UTC(year, month + 1) : Date.UTC(year, month, now.getUTCDate() + 1);
  clock.advanceMs(target + 1000 - clock.now());
}

test('Limits 4, Errors 7: with the month a visitor has the turns again, with the day a network', async () => {
  // A month's first day, so that the next one is of the same month.
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
    'The free turns of the anonymous tier are used up for your network today. Sign in to continue.',
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

test('the fourth new visitor of a network works; in the next hour three are free again', async () => {
  const address = '203.0.113.8';
  for (let n = 0; n < 3; n++) await visitorFrom(address);
  const asked = await call('/api/visitor', {}, address);
  expect([asked.cookie, typeof asked.json['work']]).toEqual([undefined, 'object']);
  clock.advanceMs(hourMs);
  await visitorFrom(address);
});

test('a cookie ends after 35 days', async () => {
  const address = '203.0.113.9';
  const cookie = await visitorFrom(address);
  clock.advanceMs(34 * 24 * hourMs);
  expect((await chat(address, cookie)).status).toBe(200);
  clock.advanceMs(24 * hourMs);
  expect((await chat(address, cookie)).status).toBe(401);
});
