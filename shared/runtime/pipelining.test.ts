/** Tests pipelined requests on one connection, over real sockets: how many are handled, and what happens to the rest. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { Connections } from './connections.ts';
import { createHttpServer } from './http-server.ts';
import { pipelinedMax } from './pipelining.ts';

interface Listening {
  readonly peer: RawPeer;
  readonly handled: ServerResponse[];
}

async function listening(isAnswered: boolean, halfOpen = false): Promise<Listening> {
  const handled: ServerResponse[] = [];
  const connections = new Connections({ registry: new Registry() });
  const server = createHttpServer(
    {
      name: 'api',
      // A request that is refused counts as handled, too.
      badHttp: (_request, response) => handled.push(response),
      connections,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 10_000,
      handlesContinue: true,
    },
    (_request, response) => {
      handled.push(response);
      if (isAnswered) response.end('ok');
    },
  );
  const port = await portOf(server);
  const peer = await RawPeer.open({ host: '127.0.0.1', port, tls: false }, { halfOpen });
  onTestFinished(() => {
    peer.close();
    server.close();
    server.closeAllConnections();
  });
  return { peer, handled };
}

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

test.each([
  ['and each is answered at once', get, true],
  ['and each waits for its response', get, false],
  ['and each expects 100 Continue', get.replace('Host', 'Expect: 100-continue\r\nHost'), false],
  ['and each has an unknown expectation', get.replace('Host', 'Expect: more\r\nHost'), false],
])(
  'if many requests arrive in one piece %s, few are handled and the connection ends',
  async (_, request, isAnswered) => {
    const { peer, handled } = await listening(isAnswered);
    await peer.send(request.repeat(1000));
    await peer.ended;
    expect(handled).toHaveLength(pipelinedMax);
  },
);

test('requests after the last response are not handled, and too many of them end the connection', async () => {
  const { peer, handled } = await listening(false, true);
  await peer.send(get);
  await vi.waitUntil(() => handled.length === 1);
  const [last] = handled;
  const { socket } = last as ServerResponse;
  last?.writeHead(200, { connection: 'close' }).end('ok');
  await vi.waitUntil(() => socket?.writableEnded);
  await peer.send(get.repeat(pipelinedMax));
  expect(socket?.destroyed).toBe(false);
  await peer.send(get);
  await vi.waitUntil(() => socket?.destroyed);
  expect(handled).toHaveLength(1);
});

test('after its responses, a connection may again send as many requests ahead as allowed', async () => {
  const { peer, handled } = await listening(false);
  for (let round = 1; round <= 3; round++) {
    await peer.send(get.repeat(pipelinedMax));
    await vi.waitUntil(() => handled.length === round * pipelinedMax);
    const answers = handled.slice(-pipelinedMax);
    const closed = Promise.all(answers.map((response) => once(response, 'close')));
    for (const response of answers) response.end('ok');
    await closed;
  }
  await peer.send(get);
  await vi.waitUntil(() => handled.length === 3 * pipelinedMax + 1);
  expect(peer.text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(3 * pipelinedMax);
  expect(peer.isClosed).toBe(false);
});

test.each([
  ['garbage', 'no request\r\n\r\n'],
  ['a tunnel', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'],
  ['a broken head', 'GET / HTTP/1.1 \nHost: a\r\n\r\n'],
])('%s after a request neither replaces nor truncates its response', async (_, garbage) => {
  const { peer, handled } = await listening(false);
  await peer.send(`${get}${garbage}`);
  await vi.waitUntil(() => handled.length === 1);
  const body = 'x'.repeat(4_000_000);
  handled[0]?.end(body);
  await peer.ended;
  expect(peer.text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(peer.text).toMatch(/\r\nconnection: close\r\n/i);
  expect(peer.text.endsWith(`\r\n\r\n${body}`)).toBe(true);
});

test.each([
  ['alone', ''],
  [
    'in the body of a request without a response',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n',
  ],
])('garbage %s is refused with one status line, and the connection ends', async (_, before) => {
  const { peer } = await listening(false);
  await peer.send(`${before}no request\r\n\r\n`);
  await peer.ended;
  expect(peer.text).toBe('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
});
