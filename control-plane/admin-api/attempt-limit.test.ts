/** Tests every place where a secret is compared: wrong secrets must be limited, and the right one must always be accepted. */
import type { FastifyRequest } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeConnectPath } from '../../schemas/records/node-messages.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken, quiet } from '../../test/support/fleet.ts';
import { CommandError } from '../core/command-error.ts';
import { AttemptLimit } from './attempt-limit.ts';

const gatewayToken = 'the-token-of-gateways-0001';
let plane: TestControlPlane;
beforeEach(async () => {
  const console = { bind: '127.0.0.1', port: 0, hosts: [] };
  plane = await startControlPlaneAlone({ gatewayToken, console });
});
afterEach(() => plane.close());

async function statusOf(url: string, token?: string): Promise<{ status: number; retryAfter: string | null }> {
  const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }) };
  const answer = await fetch(url, { headers });
  await answer.body?.cancel();
  return { status: answer.status, retryAfter: answer.headers.get('retry-after') };
}

async function signIn(
  url: string,
  operator = 'none',
): Promise<{ status: number; retryAfter: string | null }> {
  const headers = {
    'content-type': 'application/json',
    'sec-fetch-site': 'same-origin',
    origin: plane.console ?? '',
  };
  const body = JSON.stringify({ operatorToken: operator });
  const answer = await fetch(url, { method: 'POST', headers, body });
  return { status: answer.status, retryAfter: answer.headers.get('retry-after') };
}

async function nodeToken(): Promise<string> {
  const node = {
    id: 'n-1',
    place: { kind: 'pool' },
    url: 'http://127.0.0.1:9',
    dialect: 'vllm',
    agent: true,
  };
  await plane.admin.call('POST', '/nodes', node);
  return (await plane.admin.createNodeToken('n-1')).value;
}

const places = [
  {
    place: 'the admin API',
    path: '/admin/v1/keys',
    right: async () => operatorToken,
    passes: 200,
    most: 120,
  },
  {
    place: 'an unknown path',
    path: '/admin/v1/nothing',
    right: async () => operatorToken,
    passes: 404,
    most: 120,
  },
  {
    place: 'gateways’ snapshots',
    path: '/admin/v1/snapshot',
    right: async () => gatewayToken,
    passes: 200,
    most: 120,
  },
  {
    place: 'gateways’ counters',
    path: '/admin/v1/counters',
    right: async () => gatewayToken,
    passes: 200,
    most: 120,
  },
  { place: 'agents', path: nodeConnectPath, right: nodeToken, passes: 400, most: 120 },
  { place: 'the console', path: '/api/session', right: async () => operatorToken, passes: 200, most: 5 },
];

test.each(places)('$place: $most wrong tokens a minute, and the right one always works', async (place) => {
  const { path, right, passes, most } = place;
  const isConsole = path.startsWith('/api/');
  const url = `${isConsole ? plane.console : plane.url}${path}`;
  const ask = (token: string) => (isConsole ? signIn(url, token) : statusOf(url, token));
  const secret = await right();
  for (let n = 0; n < most; n++) expect((await ask(`wrong-${n}`)).status).toBe(401);
  for (let n = 0; n < 3; n++) {
    const { status, retryAfter } = await ask(`wrong-again-${n}`);
    expect(status).toBe(503);
    expect(Number(retryAfter)).toBeGreaterThan(0);
    expect(Number(retryAfter)).toBeLessThanOrEqual(60);
    expect((await ask(secret)).status).toBe(passes);
  }
  // A call without a token does not count as a guess.
  if (!isConsole) expect((await statusOf(url)).status).toBe(401);
});

test('as many addresses are remembered as wrong tokens are allowed, each for a minute', () => {
  let nowMs = 0;
  const limit = new AttemptLimit({ perAddress: 5, all: 100, logger: quiet, now: () => nowMs });
  const wrong = new CommandError('Unauthorized', 'wrong');
  const from = (n: number) =>
    ({ raw: { socket: { remoteAddress: `10.0.${n >> 8}.${n & 255}` } } }) as FastifyRequest;
  const types = () => Array.from({ length: 1000 }, (_, n) => limit.refuse(from(n), wrong).type);
  expect(types().filter((type) => type === 'Unauthorized')).toHaveLength(100);
  nowMs += 59_999;
  expect(types()).not.toContain('Unauthorized');
  nowMs += 1;
  expect(types().filter((type) => type === 'Unauthorized')).toHaveLength(100);
});
