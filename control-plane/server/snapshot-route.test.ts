/** Downloads of a state that is larger than the buffers of a connection, over loopback, by clients of several addresses. */

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openLog } from '../../shared/log/open-log.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { until } from '../../test/support/until.ts';

const gatewayToken = 'test-gateway-token-0001';
const dir = mkdtempSync(join(tmpdir(), 'headgate-snapshot-route-'));
const open: ClientRequest[] = [];
let plane: TestControlPlane;

/** More than the socket buffers of both ends of a connection hold. */
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
  rmSync(dir, { recursive: true, force: true });
});

interface Download {
  status?: number;
  response?: IncomingMessage;
}

/** Requests the snapshot, and does not read it. */
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

/** Reads a download to its end. */
async function bytesOf(pending: Download): Promise<number> {
  await until(() => pending.response !== undefined);
  expect(pending.status).toBe(200);
  let bytes = 0;
  for await (const chunk of pending.response as IncomingMessage) bytes += (chunk as Buffer).length;
  return bytes;
}

test('an address that requests many snapshots and reads none does not block other addresses or the operator', async () => {
  const copies = (): string[] => readdirSync(join(plane.dir, 'cp', 'snapshot-copies'));
  const greedy = Array.from({ length: 20 }, () => download('127.0.0.2'));
  const withStatus = (status: number): Download[] => greedy.filter((each) => each.status === status);
  await until(() => withStatus(200).length === 1 && withStatus(503).length === 3);
  for (const { response } of withStatus(503)) {
    expect(response?.headers['retry-after']).toBe('5');
    const body = (await response?.toArray()) ?? [];
    expect(JSON.parse(body.join('')).error).toMatchObject({ type: 'Busy', status: 503 });
  }
  for (const [address, token] of [
    ['127.0.0.3', gatewayToken],
    ['127.0.0.4', gatewayToken],
    ['127.0.0.2', operatorToken],
  ] as const)
    expect(await bytesOf(download(address, token))).toBeGreaterThan(stateBytesMin);
  // Only the copy that the client does not read is left.
  await until(() => copies().length === 1);
  for (const one of open.splice(0)) one.destroy();
  await until(() => copies().length === 0);
});
