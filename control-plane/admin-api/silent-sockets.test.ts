import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { endWhenSilent } from './event-routes.ts';

let server: WebSocketServer;
let client: WebSocket;
beforeEach(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
});
afterEach(() => {
  client.terminate();
  server.close();
});

async function connect(): Promise<WebSocket> {
  const accepted = once(server, 'connection');
  client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  client.on('error', () => undefined);
  await once(client, 'open');
  return (await accepted)[0] as WebSocket;
}

test('a socket whose client answers no pings is closed', async () => {
  const socket = await connect();
  client.pause();
  endWhenSilent(socket, 20);
  const [code] = await once(socket, 'close');
  expect(code).toBe(1006);
});

test('a socket whose client sends only pongs stays open', async () => {
  const socket = await connect();
  endWhenSilent(socket, 20);
  let pongs = 0;
  socket.on('pong', () => {
    pongs++;
  });
  await expect.poll(() => pongs, { timeout: 10_000 }).toBeGreaterThan(10);
  expect(socket.readyState).toBe(WebSocket.OPEN);
});
