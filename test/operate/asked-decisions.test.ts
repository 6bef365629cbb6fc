/**
 * Tests that control planes can safely ask gateways for decisions, although anyone with an accepted token can report an
 * address. No secret may be sent to a false address, nobody but a control plane may ask, and only the answer of the intended
 * gateway may count.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { askDecision, decisionLines } from '../../control-plane/gateways/ask-decisions.ts';
import type { StatusBoard } from '../../control-plane/gateways/status-board.ts';
import { DecisionJournal } from '../../data-plane/records/decision-journal.ts';
import { toRecordedRequest } from '../../data-plane/records/recorded.ts';
import { decisionRoute } from '../../data-plane/records/serve-decisions.ts';
import type { RequestRecord } from '../../data-plane/request/request-record.ts';
import { mintRequestId } from '../../data-plane/surfaces/common/request-id.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { questionScheme } from '../../shared/status/signed-question.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { folderOfFile } from '../support/folders.ts';
import { portOf } from '../support/listen.ts';
import { boardOn, publish, reportOf, topic } from '../support/status-reports.ts';
import { until } from '../support/until.ts';

const [newToken, oldToken] = ['the-new-gateway-token', 'the-old-gateway-token'];
const dir = folderOfFile('asked');
const request = mintRequestId();
const kept = 250;
let journal: DecisionJournal;
/** Requests received by any listener other than a gateway. */
let seen: IncomingMessage[];
let log: ControlLog;
let board: StatusBoard;

beforeAll(async () => {
  journal = new DecisionJournal({ folder: join(dir, 'records'), gateway: 'gw-1', oneIn: 1 });
  for (let n = 0; n < kept; n++) {
    const record = {
      ...{ status: 200, at: {}, startMs: performance.now() },
      ...{ operation: { kind: 'models' }, target: { kind: 'shared' } },
      ids: { requestId: n === 0 ? request : mintRequestId() },
    } as unknown as RequestRecord;
    const moment = { nowMs: Date.now(), endMs: performance.now(), position: 7, isKnown: () => true };
    journal.add(record, toRecordedRequest(record, moment));
  }
  await until(() => journal.state.written === kept);
});
afterAll(async () => {
  await journal.close();
});
beforeEach(async () => {
  seen = [];
  log = topic();
  board = await boardOn(log, new StatusMac(newToken, oldToken));
  onTestFinished(() => board.stop());
});

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  const port = await portOf(server);
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  });
  return `http://127.0.0.1:${port}`;
}

const foreign = (answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> =>
  listen((request, response) => {
    seen.push(request);
    answer(request, response);
  });

function gateway(token: string, incarnation: string): Promise<string> {
  const route = decisionRoute(journal, { token, incarnation });
  return listen((request, response) => void route(request, response));
}

/** Forwards requests and changes the responses, as someone between the control plane and the gateway could. */
const relay = (to: string, change = (text: string) => text): Promise<string> =>
  foreign((request, response) => void passOn(to, request, response, change));

async function passOn(
  to: string,
  { url = '', headers: { authorization } }: IncomingMessage,
  response: ServerResponse,
  change: (text: string) => string,
): Promise<void> {
  const answer = await fetch(`${to}${url}`, { headers: authorization ? { authorization } : {} });
  const challenge = answer.headers.get('www-authenticate');
  response.writeHead(answer.status, challenge ? { 'www-authenticate': challenge } : {});
  response.end(answer.ok ? change(await answer.text()) : '');
}

async function reported(metrics: string, token: string, more: object = {}): Promise<void> {
  await publish(log, reportOf({ metrics, ...more }), new StatusMac(token));
  await board.readToEnd(5000);
}

const sources = () => ({ board, gatewayToken: newToken, previousGatewayToken: oldToken });

async function linesOf(): Promise<{ lines: number; unanswered: readonly string[] }> {
  const pieces = decisionLines(sources(), 0, undefined);
  let lines = 0;
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return { lines, unanswered: value };
    lines += value.split('\n').length - 1;
  }
}

async function isUnanswered(): Promise<void> {
  expect(await askDecision(sources(), request)).toEqual({ unanswered: ['edge-1'] });
  expect(await linesOf()).toEqual({ lines: 0, unanswered: ['edge-1'] });
}

function isWithoutSecret(): void {
  expect(seen).not.toEqual([]);
  for (const { method, url, headers } of seen) {
    expect([method, url]).toEqual(['GET', expect.stringMatching(/^\/decisions(\?since=0|\/req_\w+)$/)]);
    expect(JSON.stringify(headers)).not.toMatch(/bearer|-gateway-token/i);
  }
}

test.each([newToken, oldToken])('during a token rotation, a gateway with %s is asked', async (token) => {
  const incarnation = randomUUID();
  await reported(await gateway(token, incarnation), token, { incarnation });
  const { decision, unanswered } = await askDecision(sources(), request);
  expect([decision?.req, unanswered]).toEqual([request, []]);
  expect(await askDecision(sources(), mintRequestId())).toEqual({ unanswered: [] });
  expect(await linesOf()).toEqual({ lines: kept, unanswered: [] });
});

const challenge = { 'www-authenticate': `${questionScheme} challenge=${'c'.repeat(40)}` };
test.each<[string, (to: string) => RequestListener]>([
  ['sends an empty answer', () => (_request, response) => response.writeHead(404).end()],
  ['sends a challenge', () => (_request, response) => response.writeHead(401, challenge).end()],
  ['claims to know it', () => (_request, response) => response.writeHead(200, challenge).end('{}\nend x\n')],
  ['redirects elsewhere', (to) => (_request, response) => response.writeHead(307, { location: to }).end()],
])('an old-token address that %s gets no secret, and its answer is ignored', async (_name, answer) => {
  const elsewhere = await foreign((_request, response) => response.end());
  await reported(await foreign(answer(`${elsewhere}/elsewhere`)), oldToken);
  await isUnanswered();
  isWithoutSecret();
});

test('a holder of the old token cannot get a question signed for a gateway with the new token', async () => {
  const incarnation = randomUUID();
  const address = await gateway(newToken, incarnation);
  await reported(address, newToken, { incarnation });
  await reported(await relay(address), oldToken, { incarnation, n: 2 });
  await isUnanswered();
  await reported(await relay(address), newToken, { n: 3, incarnation: randomUUID(), name: 'edge-2' });
  expect((await askDecision(sources(), request)).unanswered).toEqual(['edge-1', 'edge-2']);
  isWithoutSecret();
});

test('a report repeated by another process vouches for no address', async () => {
  const metrics = await foreign((_request, response) => response.writeHead(401, challenge).end());
  const memory = { v: 1, name: 'plane-1', kind: 'memory', gateways: [reportOf({ metrics })], forgotten: [] };
  await publish(log, memory, new StatusMac(newToken));
  await board.readToEnd(5000);
  await isUnanswered();
  expect(seen).toEqual([]);
});

test.each(['/admin', '/?x=', '#x', '@x'])('an address with %s is no listener', async (more) => {
  const to = await foreign((_request, response) => response.writeHead(401, challenge).end());
  await reported(more === '@x' ? to.replace('//', '//user:x@') : `${to}${more}`, newToken);
  await isUnanswered();
  expect(seen).toEqual([]);
});

test('a signed question works once, only for its path and its gateway', async () => {
  const incarnation = randomUUID();
  const address = await gateway(newToken, incarnation);
  await reported(await relay(address), newToken, { incarnation });
  expect((await askDecision(sources(), request)).decision?.req).toBe(request);
  const [, signed] = seen.map(({ headers }) => headers.authorization ?? '');
  const other = await gateway(newToken, randomUUID());
  const status = async (url: string, authorization: string): Promise<number> => {
    const answer = await fetch(url, { headers: { authorization } });
    await answer.text();
    return answer.status;
  };
  for (const url of [`${address}/decisions/${request}`, `${address}/decisions?since=0`, `${other}/decisions`])
    expect(await status(url, signed ?? '')).toBe(401);
  expect(await status(`${address}/decisions/${request}`, `Bearer ${newToken}`)).toBe(200);
});

let first: string | undefined;
test.each<[string, (text: string) => string]>([
  ['changed', (text) => text.replace('"status":200', '"status":201')],
  ['cut', (text) => text.replace(/end \S+\n$/, '')],
  ['without its MAC', (text) => text.replace(/^(?:mac|end) .*\n/gm, '')],
  ['one endless line', (text) => `${'x'.repeat(40_000)}${text}`],
  ['from another question', (text) => (first ??= text)],
])('an answer that is %s on its way is ignored', async (name, change) => {
  const incarnation = randomUUID();
  await reported(await relay(await gateway(newToken, incarnation), change), newToken, { incarnation });
  if (name === 'from another question') await askDecision(sources(), request);
  expect((await linesOf()).unanswered).toEqual(['edge-1']);
  if (name !== 'cut') expect(await askDecision(sources(), request)).toEqual({ unanswered: ['edge-1'] });
});
