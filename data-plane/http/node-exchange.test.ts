import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { until } from '../../test/support/until.ts';
import type { Fields } from './exchange.ts';
import { NodeExchange } from './node-exchange.ts';

interface Asked {
  readonly client: NodeExchange;
  readonly response: ServerResponse;
  /** The client's end of the connection. */
  readonly socket: Socket;
  /** Writes to the system that the answer took. */
  readonly writes: () => number;
  readonly received: () => string;
}

const get = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';

const fields: Fields = ['x-request-id', 'req_1'];
const eventStream = 'text/event-stream';

async function exchange(bounds: { stallMs?: number; lastBytesMs?: number } = {}): Promise<Asked> {
  const server = createServer({ keepAliveTimeout: 60_000 });
  const port = await portOf(server);
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => {
    socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  let writes = 0;
  server.on('connection', (accepted) => {
    const counted = accepted as unknown as Record<'_write' | '_writev', (...args: unknown[]) => unknown>;
    for (const name of ['_write', '_writev'] as const) {
      const original = counted[name];
      counted[name] = function (this: unknown, ...args) {
        writes += 1;
        return original.apply(this, args);
      };
    }
  });
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk.toString();
  });
  socket.on('error', () => undefined);
  socket.write(get);
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  const client = new NodeExchange(response, { stallMs: 60_000, lastBytesMs: 10_000, ...bounds });
  return { client, response, socket, writes: () => writes, received: () => received };
}

function eventsOf(client: NodeExchange): string[] {
  const events: string[] = [];
  client.listen({
    onGone: () => events.push('gone'),
    onBlocked: () => events.push('blocked'),
    onDrained: () => events.push('drained'),
  });
  return events;
}

test('a complete answer goes out in one write, head and body', async () => {
  const { client, writes, received } = await exchange();
  expect(await client.whole(200, 'application/json', fields, '{"a":"é"}')).toBe(true);
  expect(writes()).toBe(1);
  await until(() => received().includes('{"a":"é"}'));
  expect(received()).toMatch(/^HTTP\/1.1 200 OK\r\n/);
  expect(received()).toContain(
    'content-type: application/json\r\ncontent-length: 10\r\nx-request-id: req_1\r\n',
  );
});

test('what a stream is given within one turn goes out in one write, with the head in the first', async () => {
  const { client, writes, received } = await exchange();
  client.start(eventStream, fields);
  for (const text of ['data: 1\n\n', 'data: 2\n\n', 'data: 3\n\n']) client.write(text);
  await until(() => received().includes('data: 3'));
  expect(writes()).toBe(1);
  // One piece of 27 bytes, not three.
  expect(received()).toContain('\r\n\r\n1b\r\ndata: 1\n\ndata: 2\n\ndata: 3\n\n\r\n');
  expect(received()).toContain('content-type: text/event-stream\r\n');
  expect(received()).toContain('x-request-id: req_1\r\n');
  client.write('data: 4\n\n');
  await until(() => received().includes('data: 4'));
  expect(writes()).toBe(2);
});

test('a clean end has the end of the body and says that it was handed over', async () => {
  const { client, received } = await exchange();
  client.start(eventStream, fields);
  client.write('data: 1\n\n');
  expect(await client.end()).toBe(true);
  await until(() => received().endsWith('0\r\n\r\n'));
  expect(client.isGone).toBe(false);
});

test('Events: an early end delivers what was written, then destroys the connection without the end of the body', async () => {
  const { client, socket, received } = await exchange();
  client.start(eventStream, fields);
  client.write('data: 1\n\n');
  client.destroy();
  await once(socket, 'close');
  expect(received()).toContain('data: 1\n\n');
  expect(received()).not.toContain('0\r\n\r\n');
});

test('an early end waits only so long for a client that does not read', async () => {
  const { client, response, socket } = await exchange({ lastBytesMs: 200 });
  socket.pause();
  client.start(eventStream, fields);
  client.write('x'.repeat(30_000_000));
  client.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  expect(response.req.socket.destroyed).toBe(false);
  await until(() => response.destroyed);
});

test('a client that leaves is noticed at once, and nothing can be handed over then', async () => {
  const { client, socket } = await exchange();
  const events = eventsOf(client);
  client.start(eventStream, fields);
  client.write('data: 1\n\n');
  socket.destroy();
  await until(() => client.isGone);
  expect(events).toEqual(['gone']);
  client.write('data: 2\n\n');
  expect(await client.end()).toBe(false);
  expect(await client.whole(200, 'application/json', [], '{}')).toBe(false);
});

/** A second request on the same connection, whose answer waits for the first. */
async function pipelined(first: Asked): Promise<{ client: NodeExchange; accepted: Socket }> {
  const accepted = first.response.req.socket as Socket & { server: Server };
  const second = once(accepted.server, 'request');
  first.socket.write(get);
  const [, response] = (await second) as [unknown, ServerResponse];
  return { client: new NodeExchange(response), accepted };
}

test('a client that leaves before its turn on a pipelined connection is noticed too', async () => {
  const first = await exchange();
  const { client } = await pipelined(first);
  const events = eventsOf(client);
  first.socket.destroy();
  await until(() => client.isGone);
  expect(events).toEqual(['gone']);
});

test('an answer that never had its turn on a pipelined connection was not handed over', async () => {
  const first = await exchange();
  const { client } = await pipelined(first);
  const handed = client.whole(200, 'application/json', [], '{}');
  first.socket.destroy();
  expect(await handed).toBe(false);
});

test('an end that a client never read was not handed over', async () => {
  const { client, socket } = await exchange();
  socket.pause();
  client.start(eventStream, fields);
  client.write('x'.repeat(30_000_000));
  const handed = client.end();
  await new Promise((resolve) => setImmediate(resolve));
  socket.destroy();
  expect(await handed).toBe(false);
});

test('a slow reader blocks the stream, and is reported when it reads again', async () => {
  const { client, socket } = await exchange();
  const events = eventsOf(client);
  socket.pause();
  client.start(eventStream, fields);
  client.write('x'.repeat(30_000_000));
  await until(() => events.includes('blocked'));
  expect(events).toEqual(['blocked']);
  socket.resume();
  await until(() => events.includes('drained'));
  expect(await client.end()).toBe(true);
});

test('a client that takes no byte for the whole stall time is cut off; one that reads slowly is not', async () => {
  const { client, socket, received } = await exchange({ stallMs: 1000 });
  const events = eventsOf(client);
  socket.pause();
  client.start(eventStream, fields);
  client.write('x'.repeat(30_000_000));
  const reading = setInterval(() => socket.read(200_000), 20);
  await until(() => received().length > 15_000_000, 20_000);
  expect(events).toEqual(['blocked']);
  clearInterval(reading);
  socket.pause();
  await until(() => client.isGone, 10_000);
  expect(events).toEqual(['blocked', 'gone']);
}, 60_000);

test('what a client sends is nothing that it takes', async () => {
  const { client, socket } = await exchange({ stallMs: 200 });
  socket.pause();
  client.start(eventStream, fields);
  client.write('x'.repeat(30_000_000));
  socket.write('GET / HTTP/1.1\r\nHost: a\r\nA: ');
  const drip = setInterval(() => socket.write('a'), 5);
  await until(() => client.isGone, 10_000);
  clearInterval(drip);
});

test('a connection that is kept alive keeps no listener of an answer', async () => {
  const { client, response, received, socket } = await exchange();
  const accepted = response.req.socket;
  const before = accepted.listenerCount('close');
  new NodeExchange(response);
  expect(accepted.listenerCount('close')).toBe(before);
  socket.pause();
  client.start(eventStream, fields);
  client.write('x'.repeat(30_000_000));
  const handed = client.end();
  await new Promise((resolve) => setImmediate(resolve));
  socket.resume();
  expect(await handed).toBe(true);
  // The server's own; ours is one for the connection, whatever the number of answers.
  expect(accepted.listenerCount('close')).toBe(before - 1);
  expect(accepted.listenerCount('timeout')).toBe(1);
  await until(() => received().endsWith('0\r\n\r\n'));
  expect(socket.destroyed).toBe(false);
});
