/** Tests a listener's HTTP over real sockets: its answers, their order and writes, and how it treats hostile clients. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';
import { Certificate } from '../../shared/runtime/tls.ts';
import { type ExchangeServer, serveExchanges } from '../../test/support/exchange-server.ts';
import { until } from '../../test/support/until.ts';
import type { ConnectionEvent, ConnectionState } from './connection-states.ts';
import { connectionTransitions } from './connection-states.ts';
import type { Exchange } from './exchange.ts';

interface OpenServer extends ExchangeServer {
  readonly exchanges: Exchange[];
}

type Handle = (exchange: Exchange) => unknown;

const fixture = (name: string): string =>
  new URL(`../../test/fixtures/tls/${name}`, import.meta.url).pathname;

async function opened(
  handle: Handle = () => undefined,
  timeouts: object = {},
  more: Parameters<typeof serveExchanges>[1] = {},
): Promise<OpenServer> {
  const exchanges: Exchange[] = [];
  const server = await serveExchanges(
    async (exchange) => {
      exchanges.push(exchange);
      await handle(exchange);
    },
    { timeouts, ...more },
  );
  onTestFinished(() => server.destroy());
  return { ...server, exchanges };
}

/** Returns a listener's only connection, and a count of the system calls that wrote answers to it. */
async function connectionOf({ sockets }: OpenServer): Promise<{ socket: Socket; writes(): number }> {
  await until(() => sockets.size === 1);
  const [socket] = sockets;
  if (socket === undefined) throw new Error('is closed');
  const counted = socket as unknown as Record<'_write' | '_writev', (...args: unknown[]) => unknown>;
  let writes = 0;
  for (const name of ['_write', '_writev'] as const) {
    const original = counted[name];
    counted[name] = function (this: unknown, ...args) {
      writes += 1;
      return original.apply(this, args);
    };
  }
  return { socket, writes: () => writes };
}

function eventsOf({ answer }: Exchange): string[] {
  const events: string[] = [];
  answer.listen({
    onGone: () => events.push('gone'),
    onBlocked: () => events.push('blocked'),
    onDrained: () => events.push('drained'),
  });
  return events;
}

/** Answers with a stream that is larger than the kernel's buffers. */
const flood: Handle = ({ answer }) => {
  answer.start('text/event-stream', []);
  answer.write('x'.repeat(30_000_000));
};

class Client {
  text = '';
  readonly socket: Socket;
  isClosed = false;

  constructor(port: number, tls = false) {
    const to = { port, host: '127.0.0.1', allowHalfOpen: true };
    this.socket = tls ? connectTls({ ...to, rejectUnauthorized: false }) : connect(to);
    this.socket.on('data', (bytes) => {
      this.text += bytes.toString('latin1');
    });
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.isClosed = true;
    });
    onTestFinished(() => void this.socket.destroy());
  }

  send(text: string): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  get statuses(): number[] {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  }
}

const get = (path = '/'): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const post = (body: string, more = ''): string =>
  `POST / HTTP/1.1\r\nHost: a\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`;

const echoPath: Handle = ({ head, answer }) => answer.whole(200, 'text/plain', ['x-a', 'b'], head.url ?? '');

test('in every sequence of events, a connection answers only requests and ends once', () => {
  const states = Object.keys(connectionTransitions) as ConnectionState[];
  const events: ConnectionEvent[] = ['begun', 'whole', 'answered', 'answered-last', 'refused', 'closed'];
  for (const state of states) {
    const row = connectionTransitions[state];
    if (row.answered !== undefined) expect(['reading', 'answering']).toContain(state);
    if (state !== 'closed') expect(row.closed).toBe('closed');
    for (const event of events)
      if (state === 'closing' && event !== 'closed') expect(row[event]).toBeUndefined();
  }
  expect(connectionTransitions.closed).toEqual({});
});

test('a response states how long its connection may wait for another request', async () => {
  const listener = await opened(echoPath, {}, { limits: { keepAliveMs: 7000 } });
  const client = new Client(listener.port);
  client.send(get());
  await until(() => client.text.includes('\r\nkeep-alive: timeout=7\r\n'));
});

test('a complete response is written with its body at once, and the connection takes the next request', async () => {
  const listener = await opened(echoPath);
  const client = new Client(listener.port);
  const { socket, writes } = await connectionOf(listener);
  client.send(get('/a'));
  await until(() => client.text.endsWith('/a'));
  expect(client.text).toMatch(
    /^HTTP\/1\.1 200 OK\r\ncontent-type: text\/plain\r\ncontent-length: 2\r\nx-a: b\r\ndate: [^\r]+ GMT\r\nconnection: keep-alive\r\nkeep-alive: timeout=75\r\n\r\n\/a$/,
  );
  expect(writes()).toBe(1);
  const listeners = (): number[] => socket.eventNames().map((name) => socket.listenerCount(name));
  const before = listeners();
  client.send(get('/b'));
  await until(() => client.text.endsWith('/b'));
  expect(client.statuses).toEqual([200, 200]);
  // A kept-alive connection must keep no listener from an earlier answer.
  expect(listeners()).toEqual(before);
});

test('Content-Length counts bytes, not characters', async () => {
  const { port } = await opened(({ answer }) => answer.whole(200, 'application/json', [], '{"a":"é"}'));
  const client = new Client(port).send(get());
  await until(() => client.text.endsWith('"}'));
  expect(client.text).toContain('content-length: 10\r\n');
});

test('HEAD has a length but no body, and a preset field is sent unless the response sets its own', async () => {
  const { port } = await opened(({ answer }) => {
    answer.setField('x-a', 'set');
    answer.setField('x-c', 'd');
    return answer.whole(200, 'text/plain', ['x-a', 'b'], Buffer.from('abc'));
  });
  const client = new Client(port).send(`HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
  await until(() => client.isClosed || client.text.includes('\r\n\r\n'));
  expect(client.text).toContain('content-length: 3\r\nx-a: b\r\nx-c: d\r\n');
  expect(client.text).toMatch(/connection: close\r\n\r\n$/);
});

test('each frame of a stream is one write, the head goes with the first event, and the last chunk ends it', async () => {
  const listener = await opened(async ({ answer }) => {
    answer.start('text/event-stream', ['x-a', 'b']);
    for (const text of ['1', '2', '3']) answer.write(`data: ${text}\n\n`);
    await new Promise((resolve) => setImmediate(resolve));
    answer.write('data: é\n\n');
    expect(await answer.end()).toBe(true);
    expect(answer.isGone).toBe(false);
  });
  const client = new Client(listener.port);
  const { writes } = await connectionOf(listener);
  client.send(get());
  await until(() => client.text.endsWith('0\r\n\r\n'));
  expect(writes()).toBe(2);
  expect(client.text).toContain('transfer-encoding: chunked\r\nx-a: b\r\n');
  expect(client.text).toContain(
    '\r\n\r\n1b\r\ndata: 1\n\ndata: 2\n\ndata: 3\n\n\r\na\r\ndata: \xc3\xa9\n\n\r\n0\r\n\r\n',
  );
});

test('Events: an early end delivers what was written, then destroys the connection without the end of the body', async () => {
  const { port } = await opened(({ answer }) => {
    answer.start('text/event-stream', []);
    answer.write('data: 1\n\n');
    answer.destroy();
  });
  const client = new Client(port).send(get());
  await once(client.socket, 'end');
  expect(client.text).toMatch(/data: 1\n\n\r\n$/);
});

test('an early end waits only a limited time for a client that does not read', async () => {
  const listener = await opened(
    async (exchange) => {
      await flood(exchange);
      exchange.answer.destroy();
    },
    { lastBytesTimeoutMs: 200 },
  );
  const client = new Client(listener.port).send(get());
  client.socket.pause();
  const { socket } = await connectionOf(listener);
  await until(() => listener.exchanges.length === 1);
  await new Promise((resolve) => setImmediate(resolve));
  expect(socket.destroyed).toBe(false);
  await until(() => socket.destroyed);
});

test('a large body is not read until it is requested, and then arrives whole', async () => {
  const { port, exchanges } = await opened();
  const length = 12_000_000;
  const client = new Client(port).send(post('x'.repeat(length)));
  await until(() => exchanges.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(client.socket.writableLength).toBeGreaterThan(0);
  const [exchange] = exchanges;
  expect(exchange?.declaredBytes).toBe(length);
  let bytes = 0;
  await new Promise<void>((resolve) => {
    exchange?.body({
      onPiece: (piece) => {
        bytes += piece.length;
      },
      onEnd: resolve,
      onClose: () => undefined,
    });
  });
  expect(bytes).toBe(length);
});

test('an endless pipeline is read no faster than it is answered', async () => {
  const { port, exchanges } = await opened();
  const client = new Client(port).send(get().repeat(1_000_000));
  await until(() => exchanges.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(exchanges).toHaveLength(1);
  expect(client.socket.writableLength).toBeGreaterThan(0);
});

test('a client that disconnects is noticed even behind a pipeline, and its queued requests are not handled', async () => {
  let events: string[] = [];
  const { port, exchanges } = await opened((exchange) => {
    events = eventsOf(exchange);
  });
  const client = new Client(port).send(get().repeat(2));
  await until(() => exchanges.length > 0);
  client.socket.destroy();
  await until(() => exchanges[0]?.answer.isGone === true);
  expect(events).toEqual(['gone']);
  expect(exchanges).toHaveLength(1);
});

test('a body that breaks off ends its request, which can no longer be answered', async () => {
  let isGone = false;
  const { port, exchanges } = await opened((exchange) => {
    exchange.body({ onPiece: () => undefined, onEnd: () => undefined, onClose: () => (isGone = true) });
  });
  const client = new Client(port).send(
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n',
  );
  await until(() => exchanges.length === 1);
  client.send('zz\r\n');
  await once(client.socket, 'end');
  expect(client.statuses).toEqual([400]);
  expect(isGone).toBe(true);
  exchanges[0]?.abort();
  expect(await exchanges[0]?.answer.whole(200, undefined, [], 'late')).toBe(false);
});

test('a client’s disconnection is noticed at every stage of a request, and nothing can be delivered after it', async () => {
  let events: string[] = [];
  const { port, exchanges } = await opened((exchange) => {
    events = eventsOf(exchange);
    if (exchange.head.url !== '/stream') return;
    exchange.answer.start('text/event-stream', []);
    exchange.answer.write('data: 1\n\n');
  });
  for (const [path, bytes] of [
    ['/whole', get('/whole')],
    ['/stream', get('/stream')],
    ['/body', 'POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab'],
  ] as const)
    for (const leave of ['resetAndDestroy', 'destroy', 'end'] as const) {
      const client = new Client(port).send(bytes);
      const before = exchanges.length;
      await until(() => exchanges.length > before);
      client.socket[leave]();
      // The listener stops reading a body that it does not want, so it cannot notice when the connection closes within the
      // body. Discarding the body makes it read on.
      const exchange = exchanges.at(-1) as Exchange;
      if (path === '/body') exchange.discardBody();
      await until(() => exchange.answer.isGone);
      expect(events).toEqual(['gone']);
      expect(exchange.gone.aborted).toBe(true);
      exchange.answer.write('data: 2\n\n');
      expect(await exchange.answer.end()).toBe(false);
      expect(await exchange.answer.whole(200, undefined, [], 'late')).toBe(false);
    }
});

test('an end that the client never read does not count as delivered', async () => {
  let handed: Promise<boolean> | undefined;
  const { port } = await opened(async (exchange) => {
    await flood(exchange);
    handed = exchange.answer.end();
  });
  const client = new Client(port).send(get());
  client.socket.pause();
  await until(() => handed !== undefined);
  client.socket.destroy();
  expect(await handed).toBe(false);
});

test('a slow reader blocks its stream until it reads again', async () => {
  let events: string[] = [];
  const { port, exchanges } = await opened((exchange) => {
    events = eventsOf(exchange);
    return flood(exchange);
  });
  const client = new Client(port).send(get());
  client.socket.pause();
  await until(() => events.includes('blocked'));
  expect(events).toEqual(['blocked']);
  client.socket.resume();
  await until(() => events.includes('drained'), 20_000);
  expect(await exchanges[0]?.answer.end()).toBe(true);
});

test('a client that reads nothing is cut off, whatever it sends meanwhile', async () => {
  let events: string[] = [];
  const stream: Handle = (exchange) => {
    events = eventsOf(exchange);
    return flood(exchange);
  };
  const { port } = await opened(stream, { stallTimeoutMs: 200 });
  const client = new Client(port).send(get());
  client.socket.pause();
  const drip = setInterval(() => client.send('G'), 5);
  onTestFinished(() => clearInterval(drip));
  await until(() => events.includes('gone'));
  expect(events).toEqual(['blocked', 'gone']);
});

const large: Handle = ({ answer }) => answer.whole(200, 'text/plain', [], 'x'.repeat(30_000_000));

test.each<[string, Handle, boolean]>([
  ['a complete answer', large, false],
  ['a stream', flood, false],
  ['a complete answer over TLS', large, true],
  ['a stream over TLS', flood, true],
])('a client that reads %s slowly is not cut off', async (_, handle, tls) => {
  const certificate = tls
    ? new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') })
    : undefined;
  const { port } = await opened(handle, { stallTimeoutMs: 1000 }, { certificate });
  const client = new Client(port, tls).send(get());
  client.socket.pause();
  const sip = setInterval(() => void client.socket.read(), 5);
  onTestFinished(() => clearInterval(sip));
  await until(() => client.isClosed || client.text.length > 12_000_000);
  expect(client.isClosed).toBe(false);
});

test('a paused connection ends when its listener is destroyed', async () => {
  const pace = { isExempt: () => false, refusal: () => new Refusal('bad http', 'Later.') };
  const { port, destroy, sockets } = await opened(undefined, {}, { pace });
  const clients = Array.from({ length: 140 }, () => new Client(port));
  // The listener has no room for some of these clients, and the kernel resets those that it has not accepted yet.
  const ended = Promise.all(clients.map(({ socket }) => once(socket, 'end').catch(() => undefined)));
  await until(() => sockets.size > 20);
  destroy();
  await ended;
});

test('the waits for a head, for a whole request and for another request all time out', async () => {
  const { port } = await opened(echoPath, {
    headersTimeoutMs: 50,
    requestTimeoutMs: 50,
    keepAliveTimeoutMs: 50,
  });
  const nothing = new Client(port);
  const slow = new Client(port).send('GET / HTTP/1.1\r\nHos');
  const idle = new Client(port).send(get());
  const drip = setInterval(() => slow.socket.write('t'), 5);
  onTestFinished(() => clearInterval(drip));
  await Promise.all([nothing, slow, idle].map(({ socket }) => once(socket, 'end')));
  expect([nothing.statuses, slow.statuses, idle.statuses]).toEqual([[400], [400], [200]]);
});

test('closing a listener closes idle connections at once and others after their response', async () => {
  const answers: (() => void)[] = [];
  const { port, stopAccepting } = await opened((exchange) => {
    if (exchange.head.url === '/quick') return echoPath(exchange);
    answers.push(() => void echoPath(exchange));
    return undefined;
  });
  const idle = new Client(port).send(get('/quick'));
  const busy = new Client(port).send(get('/slow'));
  await until(() => answers.length === 1 && idle.statuses.length === 1);
  stopAccepting();
  await until(() => idle.isClosed || idle.socket.readableEnded);
  answers[0]?.();
  await once(busy.socket, 'end');
  expect(busy.text).toMatch(/connection: close\r\n\r\n\/slow$/);
});
