/** The own HTTP of a listener over real sockets: what is answered, in which order and writes, and what becomes of hostile clients. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { Connections } from '../../shared/runtime/connections.ts';
import { until } from '../../test/support/until.ts';
import type { EarlyRefusal, Listener } from './api-listener.ts';
import type { ConnectionEvent, ConnectionState } from './connection-states.ts';
import { connectionTransitions } from './connection-states.ts';
import type { Exchange } from './exchange.ts';
import { startListener } from './node-listener.ts';

interface Opened {
  readonly listener: Listener;
  readonly port: number;
  readonly exchanges: Exchange[];
  readonly refused: EarlyRefusal[];
}

type Handle = (exchange: Exchange) => unknown;

async function opened(handle: Handle = () => undefined, timeouts: object = {}): Promise<Opened> {
  const exchanges: Exchange[] = [];
  const refused: EarlyRefusal[] = [];
  const listener = await startListener({
    ...{ host: '127.0.0.1', port: 0, name: 'api', flag: '--port', http: 'own', timeouts },
    handler: async (exchange) => {
      exchanges.push(exchange);
      await handle(exchange);
    },
    onRefusal: (refusal) => refused.push(refusal),
    connections: new Connections({ registry: new Registry() }),
  });
  onTestFinished(() => listener.destroy());
  return { listener, port: Number(new URL(listener.url).port), exchanges, refused };
}

class Client {
  text = '';
  readonly socket: Socket;
  isClosed = false;

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
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

/** Answers with the path of the request. */
const echoPath: Handle = ({ head, answer }) => answer.whole(200, 'text/plain', ['x-a', 'b'], head.url ?? '');

test('whatever the events, a connection answers only a request, and ends once', () => {
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

test('a complete answer has its fields, and the connection takes the next request', async () => {
  const { port } = await opened(echoPath);
  const client = new Client(port).send(get('/é'.replace('é', 'a')));
  await until(() => client.text.endsWith('/a'));
  expect(client.text).toMatch(
    /^HTTP\/1\.1 200 OK\r\ncontent-type: text\/plain\r\ncontent-length: 2\r\nx-a: b\r\ndate: [^\r]+ GMT\r\nconnection: keep-alive\r\nkeep-alive: timeout=75\r\n\r\n\/a$/,
  );
  client.send(get('/b'));
  await until(() => client.text.endsWith('/b'));
  expect(client.statuses).toEqual([200, 200]);
});

test('HEAD has the length and no body, and a field that was set is in every answer without one of its name', async () => {
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

test('a stream is written in frames, its head with its first event, and ends with the last chunk', async () => {
  const { port } = await opened(async ({ answer }) => {
    answer.start('text/event-stream', ['x-a', 'b']);
    for (const text of ['1', '2', '3']) answer.write(`data: ${text}\n\n`);
    await new Promise((resolve) => setImmediate(resolve));
    answer.write('data: é\n\n');
    expect(await answer.end()).toBe(true);
  });
  const client = new Client(port).send(get());
  await until(() => client.text.endsWith('0\r\n\r\n'));
  expect(client.text).toContain('transfer-encoding: chunked\r\nx-a: b\r\n');
  expect(client.text).toContain(
    '\r\n\r\n1b\r\ndata: 1\n\ndata: 2\n\ndata: 3\n\n\r\na\r\ndata: \xc3\xa9\n\n\r\n0\r\n\r\n',
  );
});

test('an early end has what was written, and no end of the body', async () => {
  const { port } = await opened(({ answer }) => {
    answer.start('text/event-stream', []);
    answer.write('data: 1\n\n');
    answer.destroy();
  });
  const client = new Client(port).send(get());
  await once(client.socket, 'end');
  expect(client.text).toMatch(/data: 1\n\n\r\n$/);
});

test('a large body is held back until it is asked for, and comes whole', async () => {
  const { port, exchanges } = await opened();
  // More than the system takes.
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

test('a pipeline without end is read no faster than it is answered', async () => {
  const { port, exchanges } = await opened();
  const client = new Client(port).send(get().repeat(1_000_000));
  await until(() => exchanges.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(exchanges).toHaveLength(1);
  expect(client.socket.writableLength).toBeGreaterThan(0);
});

test('a body that breaks ends its request, which nobody answers any more', async () => {
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

test('a client that leaves is noticed, with the body, before the answer and within it', async () => {
  const gone: string[] = [];
  const { port, exchanges } = await opened((exchange) => {
    const name = exchange.head.url ?? '';
    exchange.answer.listen({
      onGone: () => gone.push(name),
      onBlocked: () => undefined,
      onDrained: () => undefined,
    });
    if (name === '/stream') {
      exchange.answer.start('text/event-stream', []);
      exchange.answer.write('data: 1\n\n');
    }
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
      // Of a body that was not asked for nothing more is read, so a close within it is not seen.
      if (path === '/body') exchanges.at(-1)?.discardBody();
      await until(() => gone.at(-1) === path && exchanges.at(-1)?.answer.isGone === true);
      expect(exchanges.at(-1)?.gone.aborted).toBe(true);
      gone.splice(0);
    }
});

test('a slow reader blocks its stream until it reads again', async () => {
  const events: string[] = [];
  const { port, exchanges } = await opened(({ answer }) => {
    answer.listen({
      onGone: () => events.push('gone'),
      onBlocked: () => events.push('blocked'),
      onDrained: () => events.push('drained'),
    });
    answer.start('text/event-stream', []);
    answer.write('x'.repeat(30_000_000));
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
  let isGone = false;
  const stream: Handle = ({ answer }) => {
    answer.listen({ onGone: () => (isGone = true), onBlocked: () => undefined, onDrained: () => undefined });
    answer.start('text/event-stream', []);
    answer.write('x'.repeat(30_000_000));
  };
  const { port } = await opened(stream, { stallTimeoutMs: 200 });
  const client = new Client(port).send(get());
  client.socket.pause();
  const drip = setInterval(() => client.send('G'), 5);
  onTestFinished(() => clearInterval(drip));
  await until(() => isGone);
});

test('a client that reads slowly is not cut off', async () => {
  const text = 'x'.repeat(20_000_000);
  const { port } = await opened(({ answer }) => answer.whole(200, 'text/plain', [], text), {
    stallTimeoutMs: 500,
  });
  const client = new Client(port).send(get());
  client.socket.pause();
  const sip = setInterval(() => void client.socket.read(), 5);
  onTestFinished(() => clearInterval(sip));
  await until(() => client.text.length > text.length);
  expect(client.isClosed).toBe(false);
});

test('waits for a head, a request and a further request end', async () => {
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

test('a listener that stops closes idle connections at once, and others with their answer', async () => {
  const answers: (() => void)[] = [];
  const { port, listener } = await opened((exchange) => {
    if (exchange.head.url === '/quick') return echoPath(exchange);
    answers.push(() => void echoPath(exchange));
    return undefined;
  });
  const idle = new Client(port).send(get('/quick'));
  const busy = new Client(port).send(get('/slow'));
  await until(() => answers.length === 1 && idle.statuses.length === 1);
  listener.stopAccepting();
  await until(() => idle.isClosed || idle.socket.readableEnded);
  answers[0]?.();
  await once(busy.socket, 'end');
  expect(busy.text).toMatch(/connection: close\r\n\r\n\/slow$/);
});
