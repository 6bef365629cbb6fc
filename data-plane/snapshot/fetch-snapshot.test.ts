import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { openDatabase } from '../../shared/sqlite.ts';
import { operatorToken, quiet, startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { fetchSnapshot } from './fetch-snapshot.ts';

let fleet: TestFleet;
const dir = mkdtempSync(join(tmpdir(), 'headgate-fetch-'));
beforeAll(async () => {
  fleet = await startFleet({ gateways: 0 });
});
afterAll(async () => {
  await fleet.close();
  rmSync(dir, { recursive: true, force: true });
});
const options = (name: string) => ({
  path: join(dir, name),
  controlPlanes: [fleet.controlPlane.admin],
  token: operatorToken,
  log: undefined,
  logger: quiet,
});

test('a gateway without a snapshot starts from that of a control plane, row for row', async () => {
  expect(await fetchSnapshot(options('whole.db'))).toBe(true);
  const { digest, position } = await fleet.admin.call<{ digest: string; position: number }>('GET', '/status');
  const snapshot = openExisting(join(dir, 'whole.db'), { readOnly: true });
  expect({ digest: snapshot.digest(), position: snapshot.seq }).toEqual({ digest, position });
  snapshot.close();
});

test.each([
  ['a wrong token', { token: 'not the token' }],
  ['no token', { token: undefined }],
  ['another log', { log: 'log-of-another-fleet' }],
  ['nobody there', { controlPlanes: ['http://127.0.0.1:1'] }],
])('nothing stands in its place after %s', async (name, change) => {
  expect(await fetchSnapshot({ ...options(`${name}.db`), ...change })).toBe(false);
  expect(() => openExisting(join(dir, `${name}.db`), { readOnly: true })).toThrow('there is no snapshot');
});

test('a control plane that is busy is asked again after the time it names', async () => {
  const url = `${fleet.controlPlane.admin}/admin/v1/snapshot`;
  const whole = await fetch(url, { headers: { authorization: `Bearer ${operatorToken}` } });
  const bytes = Buffer.from(await whole.arrayBuffer());
  const sha256 = whole.headers.get('x-headgate-sha256') ?? '';
  let asked = 0;
  const server = createServer((_request, response) => {
    // Busy more often than a control plane that fails is asked.
    if (++asked <= 3) response.writeHead(503, { 'retry-after': '1' }).end('{}');
    else response.writeHead(200, { 'x-headgate-sha256': sha256 }).end(bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const controlPlanes = [`http://127.0.0.1:${(server.address() as AddressInfo).port}`];
  expect(await fetchSnapshot({ ...options('after-busy.db'), controlPlanes })).toBe(true);
  expect(asked).toBe(4);
  server.close();
});

test('a snapshot whose rows do not add up is refused, though its bytes came whole', async () => {
  await fetchSnapshot(options('to-change.db'));
  const db = openDatabase(join(dir, 'to-change.db'), { durability: 'full' });
  db.exec("UPDATE organisation SET tier = 'Platinum'");
  const bytes = db.serialize();
  db.close();
  const server = createServer((_request, response) =>
    response
      .writeHead(200, { 'x-headgate-sha256': createHash('sha256').update(bytes).digest('hex') })
      .end(bytes),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const controlPlanes = [`http://127.0.0.1:${(server.address() as AddressInfo).port}`];
  expect(await fetchSnapshot({ ...options('changed.db'), controlPlanes })).toBe(false);
  server.close();
});
