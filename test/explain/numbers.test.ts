/**
 * Tests the numbers in an explanation: requests sent to two gateways that share a tier's limits, requests in flight at each
 * gateway, and the time and position of the decision. The organisation's limits and hypothetical requests must show the same
 * numbers.
 */
import { request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Explanation, explanationSchema } from '../../schemas/records/explanations.ts';
import { windowStartMs } from '../../shared/decision/decide.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { chat, chatBody } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

const waitMs = 90_000;
const [perMinute, concurrency] = [40, 6];
let fleet: TestFleet;
let key: string;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet, gateways: 2 });
  await fleet.admin.call('PUT', '/tiers/Rate', { rank: 50, models: '*', requestsPerMinute: perMinute });
  await fleet.admin.call('PUT', '/tiers/Slots', { rank: 51, models: '*', concurrency });
  for (const id of ['rate', 'slots']) {
    const tier = id === 'rate' ? 'Rate' : 'Slots';
    await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
  }
});
afterAll(() => fleet.close());

type Step = Explanation['steps'][number] | undefined;
const stepOf = ({ steps }: Explanation, name: string): Step => steps.find(({ step }) => step === name);

async function explained(question: object): Promise<Explanation> {
  let found: unknown;
  await until(async () => {
    found = await fleet.admin.call('POST', '/explain', question).catch(() => undefined);
    return found !== undefined;
  });
  return explanationSchema.parse(found);
}

interface Sent {
  readonly status: number;
  readonly found: Explanation;
}

async function send(gateway: number): Promise<Sent> {
  const { status, fields } = await chat({ port: fleet.port(gateway), key, model: 'echo-small' });
  return { status, found: await explained({ request: fields['x-request-id'] ?? '' }) };
}

/** Waits until the organisation's limits and a hypothetical request both show these numbers. */
async function agree(organisation: string, limits: object, step: string, text: string): Promise<void> {
  await until(async () => {
    const shown = await fleet.admin.call('GET', `/organisations/${organisation}/limits`);
    const found = await explained({ organisation, model: 'echo-small' });
    const now = JSON.stringify({ ...shown.requests, ...shown.concurrency });
    return (
      stepOf(found, step)?.text === text &&
      Object.entries(limits).every(([name, value]) => now.includes(`"${name}":${value}`))
    );
  }, waitMs);
}

test('requests in this minute are counted here and elsewhere until there is no room', async () => {
  key = (await fleet.key('rate')).value;
  const counted = [0, 0];
  let minute = 0;
  let found: Explanation;
  /** Sends one request and checks the numbers in its explanation. Counts start at 0 in a new minute. */
  const count = async (gateway: number): Promise<Step> => {
    const sent = await send(gateway);
    found = sent.found;
    const now = windowStartMs('rate', Date.parse(found.time ?? ''));
    if (now !== minute) counted.fill(0);
    minute = now;
    const step = stepOf(found, 'requests');
    const { here, elsewhere, room, allowed } = step?.facts ?? {};
    expect([here, allowed], step?.text).toEqual([counted[gateway], perMinute]);
    expect(Number(elsewhere), step?.text).toBeLessThanOrEqual(counted[1 - gateway] ?? 0);
    expect(Number(here) + Number(room), step?.text).toBeLessThanOrEqual(perMinute);
    expect(step?.text).toMatch(
      new RegExp(
        `^${Number(here) + Number(elsewhere)} of ${perMinute} in this minute: ${here} at this gateway, ${elsewhere} at others( \\(which hold \\d+\\))?; room for ${room} more at this gateway$`,
      ),
    );
    expect([sent.status, step?.result]).toEqual(Number(room) > 0 ? [200, 'ok'] : [429, 'refused']);
    if (sent.status === 200) counted[gateway] = Number(counted[gateway]) + 1;
    return step;
  };
  // A gateway learns of the other gateway's requests with some delay. Counts start at 0 in a new minute.
  await until(async () => {
    if (counted[1] === 0) await count(1);
    return (await count(0))?.facts['elsewhere'] === counted[1] && Number(counted[1]) > 0;
  }, waitMs);
  let last: Step;
  for (let sent = 0; sent < 3 * perMinute && last?.result !== 'refused'; sent++) last = await count(1);
  expect(last).toMatchObject({ result: 'refused', facts: { room: 0 } });
  const used = Number(counted[0]) + Number(counted[1]);
  if (windowStartMs('rate', Date.now()) === minute)
    await agree('rate', { used }, 'requests', `${used} of ${perMinute} in this minute`);
}, 240_000);

/** Sends a request for a stream that its node never ends. */
function hold(gateway: number): Promise<{ readonly id: string; close(): Promise<void> }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const outgoing = request(
      { port: fleet.port(gateway), host: '127.0.0.1', method: 'POST', path: '/v1/chat/completions', headers },
      (response) => {
        response.on('error', () => undefined).resume();
        const closed = new Promise<void>((done) => response.on('close', done));
        resolve({
          id: String(response.headers['x-request-id']),
          close: () => {
            outgoing.destroy();
            return closed;
          },
        });
      },
    );
    outgoing.on('error', reject).end(JSON.stringify(chatBody('echo-small', { stream: true })));
  });
}

test('requests in flight count by weight, here and elsewhere, and a decision has its time and position', async () => {
  key = (await fleet.key('slots')).value;
  const rule = { match: { stream: true }, fault: { kind: 'stall-after', afterEvents: 2 } };
  fleet.nodes['pool-1'].setBehaviour(parseBehaviour({ rules: [rule] }));
  const [position, fromMs] = [await fleet.admin.position(), Date.now()];
  const held = [await hold(0), await hold(1), await hold(1)];
  const toMs = Date.now();
  await fleet.admin.call('POST', '/organisations', { id: 'later', name: 'Later' });
  await fleet.settle();
  let found: Sent | undefined;
  for (const [gateway, here] of [
    [0, 1],
    [1, 2],
  ] as const) {
    await until(async () => {
      found = await send(gateway);
      return stepOf(found.found, 'concurrency')?.text.includes(`, ${3 - here} at others`) === true;
    }, waitMs);
    const { text = '', facts = {} } = stepOf(found?.found as Explanation, 'concurrency') ?? {};
    expect(text).toMatch(
      new RegExp(
        `^3 of ${concurrency} in flight: ${here} at this gateway, ${3 - here} at others( \\(which hold \\d+\\))?; room for ${facts['room']} more at this gateway, this one counts as 1$`,
      ),
    );
    expect(here + Number(facts['room'])).toBeLessThanOrEqual(concurrency);
  }
  const text = (inFlight: number) => `${inFlight} of ${concurrency} in flight, this one counts as 1`;
  await agree('slots', { inFlight: 3 }, 'concurrency', text(3));
  for (const { close } of held) await close();
  await agree('slots', { inFlight: 0 }, 'concurrency', text(0));
  for (const { id } of held) {
    const first = await explained({ request: id });
    expect(first).toMatchObject({ at: position, same: true, verdict: { outcome: 'ended' } });
    const atMs = Date.parse(first.time ?? '');
    expect([atMs >= fromMs, atMs <= toMs], `${fromMs} ${atMs} ${toMs}`).toEqual([true, true]);
  }
}, 240_000);
