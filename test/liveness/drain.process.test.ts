/**
 * Tests SIGTERM to a control plane. Readiness must fail at once while requests are still served. Then the control plane
 * refuses new connections, ends event streams with 1001, answers requests in flight, and exits with 0. Anything that does not
 * end is cut off in time.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { askAdmin } from '../support/ask-admin.ts';
import { operatorToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { health, type Replica, rawTail } from './clients.ts';

let fleet: ProcessFleet;
beforeEach(() => {
  fleet = new ProcessFleet();
});
afterEach(() => fleet.close());

const start = (drainDelay: string, drainTimeout: string): Promise<Plane> =>
  fleet.startPlane('cp', { flags: ['--drain-delay', drainDelay, '--drain-timeout', drainTimeout] });

async function halfSent(
  replica: Replica,
  body: string,
): Promise<{ socket: Socket; answer: Promise<string> }> {
  const { hostname, port } = new URL(replica.admin);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.on('data', (chunk) => {
    text += String(chunk);
  });
  socket.on('error', () => undefined);
  const answer = once(socket, 'close').then(() => text);
  await once(socket, 'connect');
  socket.write(
    `POST /admin/v1/organisations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${operatorToken}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
  );
  return { socket, answer };
}

const status = (replica: Replica): Promise<number> =>
  askAdmin(replica.admin, '/status').then((response) => response.status);

test('a drain fails readiness, serves on for the delay, then ends tails and finishes requests in flight', async () => {
  const replica = await start('2', '60');
  const tail = await rawTail(replica.ready, operatorToken);
  const body = JSON.stringify({ id: 'acme', name: 'Acme' });
  const { socket, answer } = await halfSent(replica.ready, body);
  expect(await status(replica.ready)).toBe(200);
  replica.child.kill('SIGTERM');
  await vi.waitFor(
    async () => {
      const { status: code, text } = await health(replica.ready.metrics, '/readyz');
      expect([code, text]).toEqual([503, expect.stringContaining('[-]drain this replica is closing')]);
    },
    { interval: 20 },
  );
  expect(await status(replica.ready)).toBe(200);
  expect(await tail.ended).toEqual({ code: 1001, reason: 'this replica ends' });
  await vi.waitFor(() => expect(status(replica.ready)).rejects.toThrow());
  expect(replica.child.exitCode).toBeNull();
  expect((await health(replica.ready.metrics, '/livez')).status).toBe(200);
  socket.write(body.slice(5));
  expect(await answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"acme"/);
  await vi.waitFor(() => expect(replica.child.exitCode).toBe(0), { timeout: 20_000 });
});

test('an endless request and a tail that never answers the close are cut off in time', async () => {
  const replica = await start('0', '1');
  const { answer } = await halfSent(replica.ready, JSON.stringify({ id: 'acme', name: 'Acme' }));
  const { hostname, port } = new URL(replica.ready.admin);
  const deaf = connect(Number(port), hostname);
  deaf.on('error', () => undefined);
  const upgraded = once(deaf, 'data');
  deaf.write(
    `GET /admin/v1/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${operatorToken}\r\nConnection: Upgrade\r\n` +
      'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  expect(String((await upgraded)[0])).toMatch(/^HTTP\/1\.1 101 /);
  deaf.resume();
  replica.child.kill('SIGTERM');
  await once(deaf, 'close');
  expect(await answer).not.toMatch(/^HTTP\/1\.1 200/);
  await vi.waitFor(() => expect(replica.child.exitCode).toBe(0), { timeout: 20_000 });
});
