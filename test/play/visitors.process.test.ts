/**
 * Tests limits on all visitors together over two gateways, and the playground while the control plane and the log are
 * unreachable.
 */

import { renameSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/pbkdf2';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import { LimitedFleet } from '../limits/fleet-limits.ts';
import { type GatewayProcess, metric, model, type Plane, smallFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { errorOf, openCall, post, type Reply, turnsOf, wholeAnswer } from './page-calls.ts';

type Page = GatewayProcess['ready'] & { readonly play: string };

const fleet = new LimitedFleet({});
let plane: Plane;
let cookie = '';
/** Number of turns that were answered completely. */
let completed = 0;
const address = '203.0.113.1';

beforeAll(async () => {
  plane = await fleet.startPlane();
  const node = await fleet.simNode('node', '--models', model, '--tokens-per-second', '20');
  await fleet.admin(plane).apply(smallFleet(node.ready.url));
  const flags = ['--play-port', '0', '--trusted-proxies', '127.0.0.1', '--when-stale', 'serve'];
  const own = ['--control-plane', plane.ready.admin, ...flags];
  const gateways = ['gateway-1', 'gateway-2'].map((name) => fleet.serve<Page>('gateway', name, own));
  fleet.gateways.push(...(await Promise.all(gateways)));
  await setTotal({});
  await until(async () => (await call(0, '/api/visitor', {})).status === 200);
  cookie = (await call(0, '/api/visitor', {})).cookie ?? '';
  for (const gateway of [0, 1]) await until(async () => (await chat(gateway)).status === 200);
});
afterAll(() => fleet.close());

const page = (gateway: number, path: string): URL =>
  new URL(path, (fleet.gateways[gateway]?.ready as Page | undefined)?.play);
const call = (gateway: number, path: string, body: object, from = address): Promise<Reply> =>
  post(page(gateway, path), body, { address: from });
const turn = (content: string, tokens = 2) => ({
  ...{ model, stream: true, max_tokens: tokens, messages: [{ role: 'user', content }] },
});

async function chat(gateway: number): Promise<Reply> {
  const answer = await post(page(gateway, '/api/chat'), turn('hello'), { address, cookie });
  if (answer.status === 200) completed++;
  return answer;
}

/** Sets the limits on all visitors together and waits until both gateways have applied them. */
async function setTotal(total: object): Promise<void> {
  const admin = fleet.admin(plane);
  await admin.call('PUT', '/anonymous', { freeTurns: 100_000, models: [model], total });
  await until(async () => {
    const { complete, gateways } = await admin.confirmed(await admin.position(), 10);
    return complete && gateways.length === fleet.gateways.length;
  });
}

test('Limits 4: visitors have a daily token limit: once used up on one gateway, the other refuses too', async () => {
  let used = 0;
  await until(async () => {
    const { day } = (await fleet.admin(plane).call('GET', '/usage/visitors')).visitors;
    used = day.totalTokens;
    return day.requests === completed;
  });
  const turns = 10;
  // All turns so far used the same number of tokens, so this limit allows `turns` more.
  await setTotal({ tokensPerDay: used + (turns * used) / completed });
  await until(async () => (await chat(0)).status === 409);
  let admitted = 0;
  await until(async () => {
    const { status } = await chat(1);
    if (status === 200) admitted++;
    return status === 409;
  });
  // The gateway admitted fewer turns than the limit allows, so it also counted usage at the other gateway.
  expect(admitted).toBeLessThan(turns);
  const refused = await chat(1);
  expect(errorOf(refused)).toMatchObject({
    type: 'InferenceUpsellError',
    message: expect.stringContaining('All visitors together have used'),
  });
  await setTotal({});
});

test('Limits 2: visitors have a concurrency limit over both gateways', async () => {
  const limit = 4;
  await setTotal({ concurrency: limit });
  const long = turn('say 2000 words', 2000);
  const streams: IncomingMessage[] = [];
  const refused: Reply[] = [];
  const ask = async (gateway: number): Promise<boolean> => {
    const response = await openCall(page(gateway, '/api/chat'), long, { address, cookie });
    if (response.statusCode !== 200) refused.push(await wholeAnswer(response));
    else streams.push(response.on('error', () => undefined));
    return response.statusCode === 200;
  };
  const exempt = await fleet.exempt(limit, async () => {
    for (let index = 0; index < 3 * limit; index++) await ask(index % 2);
  });
  expect(streams.length).toBeGreaterThanOrEqual(limit);
  expect(streams.length).toBeLessThanOrEqual(limit + exempt);
  for (const answer of refused) {
    expect([answer.status, answer.retryAfter]).toEqual([429, '1']);
    expect(errorOf(answer)).toMatchObject({
      type: 'InferenceConcurrencyLimitedError',
      message: expect.stringContaining(`${limit} requests in flight for all visitors together`),
    });
  }
  for (const stream of streams) stream.destroy();
  await until(() => ask(1));
  streams.at(-1)?.destroy();
  await setTotal({});
});

test('Limits 1: visitors have a requests-per-minute limit over both gateways', async () => {
  const limit = 10;
  await setTotal({ requestsPerMinute: limit });
  const before = completed;
  const answers: Reply[] = [];
  const burst = async (): Promise<boolean> => {
    const startMs = windowStartMs(visitorsSubject, Date.now());
    answers.length = 0;
    for (let round = 0; round < 3; round++)
      answers.push(...(await Promise.all(Array.from({ length: limit }, (_, index) => chat(index % 2)))));
    return windowStartMs(visitorsSubject, Date.now()) === startMs;
  };
  const exempt = await fleet.exempt(limit, async () => {
    // Repeats the burst if a new minute began meanwhile, because it may then have used the limits of two minutes.
    while (!(await burst()));
  });
  const refused = answers.filter(({ status }) => status !== 200);
  expect(answers.length - refused.length).toBeLessThanOrEqual(limit + exempt);
  expect(completed - before).toBeGreaterThanOrEqual(limit / 2);
  for (const answer of refused) {
    expect([answer.status, errorOf(answer).type]).toEqual([429, 'InferenceRateLimitedError']);
    expect(errorOf(answer).message).toContain(`${limit} requests a minute for all visitors together`);
    expect(Number(answer.retryAfter)).toBeGreaterThanOrEqual(1);
    expect(Number(answer.retryAfter)).toBeLessThanOrEqual(windowMs / 1000);
  }
  await setTotal({});
});

interface Sum {
  readonly from: string;
  readonly requests: number;
}
interface Row {
  readonly at: string;
  readonly visitor: string;
  readonly network: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

test('headgate usage shows the visitors’ sum, which equals that of the exported rows, and names nobody', async () => {
  const usage = async (...args: string[]): Promise<string> => {
    const run = await fleet.cli(['usage', ...args], { HEADGATE_ADMIN: plane.ready.admin });
    expect(run.code, run.stderr).toBe(0);
    return run.stdout;
  };
  let shown: { readonly day: Sum; readonly month: Sum } | undefined;
  await until(async () => {
    shown = JSON.parse(await usage('show', '--visitors', '-o', 'json')).visitors;
    return shown?.month.requests === completed;
  });
  const lines = (await usage('export')).trimEnd().split('\n');
  const rows = lines.map((line) => JSON.parse(line) as Row);
  expect(rows).toHaveLength(completed);
  for (const sum of [shown?.day, shown?.month]) {
    const of = rows.filter(({ at }) => at >= (sum?.from ?? ''));
    const total = (count: (row: Row) => number): number => of.reduce((so, row) => so + count(row), 0);
    const promptTokens = total((row) => row.promptTokens);
    const completionTokens = total((row) => row.completionTokens);
    const totalTokens = promptTokens + completionTokens;
    expect(totalTokens).toBeGreaterThan(0);
    expect(sum).toEqual({
      ...{ from: sum?.from, requests: of.length },
      ...{ promptTokens, completionTokens, totalTokens },
    });
  }
  const table = await usage('show', '--visitors');
  expect(table).toMatch(new RegExp(`^month +\\S+ +${completed} `, 'm'));
  const names = [...new Set(rows.flatMap(({ visitor, network }) => [visitor, network]))];
  expect(names).toHaveLength(2);
  expect(names.filter((name) => `${table}${JSON.stringify(shown)}`.includes(name))).toEqual([]);
});

test('a network may have thirty new visitors an hour, and Retry-After is then the rest of the hour', async () => {
  const hour = (): number => Math.floor(Date.now() / 3600_000);
  const network = '203.0.113.2';
  const ask = (body: object): Promise<Reply> => call(0, '/api/visitor', body, network);
  const tried = async (): Promise<Reply[]> => {
    for (let n = 0; n < 3; n++) expect((await ask({})).cookie).toBeDefined();
    const asked = await Promise.all(Array.from({ length: 28 }, () => ask({})));
    const solved = asked.map(async ({ json }) => {
      const challenge = json['work'] as Parameters<typeof solveChallenge>[0]['challenge'];
      return { challenge, solution: await solveChallenge({ challenge, deriveKey }) };
    });
    return Promise.all((await Promise.all(solved)).map(sent));
  };
  // The gateway checks 25 solutions per second and network. Repeats a call as the page does when the answer asks for it.
  const sent = async (solution: object): Promise<Reply> => {
    const answer = await ask({ solution });
    if (answer.retryAfter !== '1') return answer;
    await delay(1000 * Number(answer.retryAfter));
    return sent(solution);
  };
  // Waits if the current hour is about to end, because the count then starts over.
  if (60 - new Date().getUTCMinutes() <= 1) await until(() => new Date().getUTCMinutes() === 0, 61_000);
  const before = hour();
  const answers = await tried();
  expect(hour()).toBe(before);
  expect(answers.filter((answer) => answer.cookie !== undefined)).toHaveLength(27);
  const last = [...answers.filter((answer) => answer.cookie === undefined), await ask({})];
  expect(last.map((answer) => [answer.status, errorOf(answer).type])).toEqual([
    [429, 'InferenceRateLimitedError'],
    [429, 'InferenceRateLimitedError'],
  ]);
  for (const { retryAfter } of last) {
    const endsMs = Date.now() + Number(retryAfter) * 1000;
    expect(Math.round(endsMs / 60_000)).toBe((before + 1) * 60);
  }
  // A known visitor can continue, and other networks are not affected.
  const known = await post(page(0, '/api/chat'), turn('hello'), {
    ...{ address: network, cookie: answers.find((answer) => answer.cookie !== undefined)?.cookie },
  });
  expect(known.status).toBe(200);
  expect((await call(0, '/api/visitor', {}, '203.0.113.3')).cookie).toBeDefined();
});

test('the page is served and answers while the control plane is dead and the log is away', async () => {
  await plane.end('SIGKILL');
  renameSync(fleet.logFolder, join(fleet.dir, 'away-log'));
  for (const gateway of fleet.gateways)
    await until(async () => (await metric(gateway, 'headgate_limit_feed_age_seconds')) > 2.1);
  for (const gateway of [0, 1]) {
    const shown = await fetch(page(gateway, '/'));
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining('Playground')]);
    expect(shown.headers.get('content-security-policy')).toContain("default-src 'none'");
    const from = `203.0.113.${10 + gateway}`;
    const visitor = await call(gateway, '/api/visitor', {}, from);
    const as = { address: from, cookie: visitor.cookie };
    expect((await post(page(gateway, '/api/chat'), turn('hello'), as)).status).toBe(200);
    const counted = await post(page(gateway, '/api/visitor'), {}, as);
    expect(turnsOf(visitor).left - turnsOf(counted).left).toBe(1);
  }
});
