/**
 * Tests request bodies over real HTTP at a control plane: whose share of the memory they use, how large they may be, and how
 * they are refused.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { type Endpoint, endpointOf, exchange, RawPeer, statusesIn } from '../../test/support/raw-peer.ts';
import { bodyLimits } from '../core/body-limits.ts';

let plane: TestControlPlane;
let page: Endpoint;
let api: Endpoint;
const peers: RawPeer[] = [];
beforeAll(async () => {
  plane = await startControlPlaneAlone({ console: { bind: '127.0.0.1', port: 0, hosts: [] } });
  page = endpointOf(plane.console ?? '');
  api = endpointOf(plane.url);
});
afterAll(async () => {
  for (const peer of peers) peer.close();
  await plane.close();
});

const signIn = JSON.stringify({ operatorToken });

function head(to: Endpoint, path: string, length: number | string, ...more: readonly string[]): string {
  const own = [`Host: 127.0.0.1:${to.port}`, `Origin: http://127.0.0.1:${to.port}`];
  const lines = [...own, `Authorization: Bearer ${operatorToken}`, 'Content-Type: application/json', ...more];
  return [`POST ${path} HTTP/1.1`, ...lines, `Content-Length: ${length}`, '', ''].join('\r\n');
}

async function open(to: Endpoint, text: string, from = '127.0.0.1'): Promise<RawPeer> {
  const peer = await RawPeer.open(to, { from });
  peers.push(peer);
  await peer.send(text);
  return peer;
}

async function statusOf(to: Endpoint, text: string, from?: string): Promise<number | undefined> {
  const peer = await open(to, text, from);
  await peer.received(/\r\n\r\n/);
  peer.close();
  return statusesIn(peer.text)[0];
}

test('an address that fills its share of memory with endless bodies keeps nobody else out', async () => {
  const { bytes } = bodyLimits.tiny;
  const half = `${head(page, '/api/session', bytes)}${' '.repeat(bytes - 1)}`;
  const held = await Promise.all(Array.from({ length: 300 }, () => open(page, half)));
  // An address's share of the memory has room for 256 of these 300 bodies, so at least 44 are refused.
  const refusedOf = () => held.filter(({ text }) => text !== '');
  await vi.waitFor(() => expect(refusedOf().length).toBeGreaterThanOrEqual(44), { timeout: 20_000 });
  const refused = refusedOf()[0]?.text ?? '';
  expect(statusesIn(refused)).toEqual([429]);
  expect(refused).toMatch(/retry-after: 1[\s\S]*"type":"TooManyRequests"/);
  const asks = head(page, '/api/session', signIn.length) + signIn;
  expect(await statusOf(page, asks, '127.0.0.2')).toBe(200);
  const member = JSON.stringify({ id: 'acme', name: 'Acme' });
  expect(await statusOf(api, head(api, '/admin/v1/organisations', member.length) + member)).toBe(200);
  for (const peer of held) peer.close();
  await vi.waitFor(async () => expect(await statusOf(page, asks)).toBe(200), { timeout: 20_000 });
});

test('a body is requested with 100 Continue only if it would be read', async () => {
  const waits = 'Expect: 100-continue';
  const asked = await open(api, head(api, '/admin/v1/organisations', 9, waits));
  expect(await asked.received(/100 Continue/)).toBe(true);
  for (const [path, length, status] of [
    ['/admin/v1/organisations', bodyLimits.small.bytes + 1, 413],
    ['/admin/v1/nothing', 9, 404],
  ] as const)
    expect(await statusOf(api, head(api, path, length, waits))).toBe(status);
  const unknown = head(api, '/admin/v1/organisations', 9, waits).replace(operatorToken, 'nobody');
  expect(await statusOf(api, unknown)).toBe(401);
});

test('an unread body is dropped, and its client still reads the response', async () => {
  const text = ' '.repeat(1024 * 1024);
  for (const [to, path, status] of [
    [page, '/nothing', 404],
    [page, '/api/nothing', 404],
    [api, '/admin/v1/nothing', 404],
    [page, '/api/session', 413],
  ] as const) {
    const answer = await exchange(to, `${head(to, path, text.length, 'Connection: close')}${text}`);
    expect(statusesIn(answer), path).toEqual([status]);
  }
});

test.each([
  ['depth', `{"a":${'['.repeat(20)}${']'.repeat(20)}}`, 'nested deeper than 16'],
  ['names', `{${Array.from({ length: 2001 }, (_, n) => `"n${n}":0`).join()}}`, 'more than 2000 names'],
  ['values', `[${Array(10_001).fill('0').join()}]`, 'more than 10000 values'],
])('a body with too much %s is refused by that name', async (_, body, message) => {
  const answer = await exchange(
    api,
    head(api, '/admin/v1/organisations', body.length, 'Connection: close') + body,
  );
  expect(statusesIn(answer)).toEqual([413]);
  expect(answer).toContain(message);
});

test('a WebSocket upgrade that announces a body gets no 100 Continue', async () => {
  const asks = [
    'GET /admin/v1/events/stream?from=1 HTTP/1.1',
    `Host: 127.0.0.1:${api.port}`,
    `Authorization: Bearer ${operatorToken}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version: 13',
    'Expect: 100-continue',
  ];
  const peer = await open(api, `${asks.join('\r\n')}\r\n\r\n`);
  // Waits for the first event, because the server sends it after everything else.
  expect(await peer.received(/log\.created/)).toBe(true);
  expect(peer.text).toMatch(/^HTTP\/1\.1 101 /);
  expect(peer.text).not.toContain('100 Continue');
});
