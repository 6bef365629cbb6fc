/** Tests downloads of a state that is larger than a connection's buffers, over loopback and from several addresses. */

import { readdirSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openLog } from '../../shared/log/open-log.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { until } from '../../test/support/until.ts';

const gatewayToken = 'test-gateway-token-0001';
const dir = folderOfFile('snapshot-route');
const open: ClientRequest[] = [];
let plane: TestControlPlane;

/** Smallest size of the state in bytes: more than the socket buffers at both ends of a connection hold. */
const stateBytesMin = 9_000_000;

beforeAll(async () => {
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const log = await openLog(logUrl, { topic: 'headgate.control' });
  const writer = new ChainWriter();
  await log.append(writer.open().value);
  for (let commit = 0; commit < 16; commit++) {
    const organisations = Array.from({ length: 2500 }, (_, index) =>
      known('organisation.set', {
        id: `o-${commit}-${index}`,
        name: 'n'.repeat(200),
        tier: null,
        anchor: '2026-11-01',
      }),
    );
    await log.append(writer.add(organisations).value);
  }
  await log.close();
  plane = await startControlPlaneAlone({ logUrl, gatewayToken });
});
afterEach(() => {
  for (const one of open.splice(0)) one.destroy();
});
afterAll(async () => {
  await plane.close();
});

interface Download {
  status?: number;
  response?: IncomingMessage;
}

function download(address: string, token = gatewayToken): Download {
  const pending: Download = {};
  const sent = request(`${plane.url}/admin/v1/snapshot`, {
    localAddress: address,
    agent: false,
    headers: { authorization: `Bearer ${token}` },
  });
  sent.on('response', (response) => {
    pending.status = response.statusCode ?? 0;
    pending.response = response;
    response.on('error', () => undefined);
  });
  sent.on('error', () => undefined);
  sent.end();
  open.push(sent);
  return pending;
}

async function bytesOf(pending: Download): Promise<number> {
  await until(() => pending.response !== undefined);
  expect(pending.status).toBe(200);
  let bytes = 0;
  for await (const chunk of pending.response as IncomingMessage) bytes += (chunk as Buffer).length;
  return bytes;
}

const copies = (): string[] => readdirSync(join(plane.dir, 'cp', 'snapshot-copies'));

test('fifty gateways at one address are served at once from one copy, even beside clients that do not read', async () => {
  const silent = Array.from({ length: 10 }, () => download('127.0.0.2'));
  await until(() => silent.every(({ status }) => status === 200));
  const all = Array.from({ length: 50 }, () => download('127.0.0.2'));
  const bytes = await Promise.all(all.map(bytesOf));
  expect(Math.min(...bytes)).toBeGreaterThan(stateBytesMin);
  expect(copies()).toHaveLength(1);
});

test('downloads per address are limited, which leaves room for other addresses and the operator', async () => {
  const greedy = Array.from({ length: 70 }, () => download('127.0.0.2'));
  const withStatus = (status: number): Download[] => greedy.filter((each) => each.status === status);
  await until(() => withStatus(200).length === 64 && withStatus(503).length === 6);
  for (const { response } of withStatus(503)) {
    expect(response?.headers['retry-after']).toBe('5');
    const body = (await response?.toArray()) ?? [];
    expect(JSON.parse(body.join('')).error).toMatchObject({ type: 'Busy', status: 503 });
  }
  for (const [address, token] of [
    ['127.0.0.3', gatewayToken],
    ['127.0.0.2', operatorToken],
  ] as const)
    expect(await bytesOf(download(address, token))).toBeGreaterThan(stateBytesMin);
});

test('a copy that the client already has is not sent again, and a part of the same copy can be requested', async () => {
  const get = (headers: Record<string, string> = {}) =>
    fetch(`${plane.url}/admin/v1/snapshot`, {
      headers: { authorization: `Bearer ${gatewayToken}`, ...headers },
    });
  const whole = await get();
  const bytes = Buffer.from(await whole.arrayBuffer());
  const etag = whole.headers.get('etag') ?? '';
  const known = await get({ 'if-none-match': etag });
  expect([known.status, (await known.arrayBuffer()).byteLength]).toEqual([304, 0]);
  const rest = await get({ range: 'bytes=1000-', 'if-range': etag });
  expect([rest.status, rest.headers.get('content-range')]).toEqual([
    206,
    `bytes 1000-${bytes.length - 1}/${bytes.length}`,
  ]);
  expect(Buffer.from(await rest.arrayBuffer()).equals(bytes.subarray(1000))).toBe(true);
  const piece = await get({ range: 'bytes=5-9', 'if-range': etag });
  expect(Buffer.from(await piece.arrayBuffer()).equals(bytes.subarray(5, 10))).toBe(true);
  for (const other of [
    { range: 'bytes=1000-' },
    { range: 'bytes=1000-', 'if-range': '"another"' },
    { range: `bytes=${bytes.length}-`, 'if-range': etag },
    { range: 'bytes=0-1,5-6', 'if-range': etag },
  ]) {
    const answer = await get(other);
    expect([answer.status, (await answer.arrayBuffer()).byteLength]).toEqual([200, bytes.length]);
  }
});
