/** Tests in which order the requests of many connections are handled in one turn of the event loop, over real sockets. */
import { Registry } from 'prom-client';
import { expect, test, vi } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { until } from '../../test/support/until.ts';
import { Connections } from './connections.ts';
import { boundTurns } from './handled-turns.ts';
import { createHttpServer, refuseAsText } from './http-server.ts';
import { pipelinedMax } from './pipelining.ts';

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const workMs = 8;
const hostileCount = 60;

function work(): void {
  for (const untilMs = performance.now() + workMs; performance.now() < untilMs; );
}

test('after a few slow requests, a caller from another address gets a turn', async () => {
  const handled: string[] = [];
  let other: RawPeer | undefined;
  const settings = { headersTimeoutMs: 60_000, requestTimeoutMs: 60_000 } as const;
  const connections = new Connections({ registry: new Registry() });
  const server = createHttpServer(
    { name: 'api', badHttp: refuseAsText, connections, ...settings },
    (request, response) => {
      if (handled.push(String(request.url)) === 1) void other?.send(get('/other'));
      if (request.url === '/hostile') work();
      response.end('ok');
    },
  );
  const port = await portOf(server);
  const at = { host: '127.0.0.1', port, tls: false };
  other = await RawPeer.open(at);
  const hostile = await Promise.all(
    Array.from({ length: hostileCount }, () => RawPeer.open(at, { from: '127.0.0.9' })),
  );
  for (const peer of hostile) void peer.send(get('/hostile').repeat(pipelinedMax));
  await other.received(/200 OK/);
  expect(handled.indexOf('/other')).toBeLessThan(hostileCount / 4);
  for (const peer of [...hostile, other]) peer.close();
  server.close();
  server.closeAllConnections();
});

test('waiting requests begin even after the system delayed the thread for more than a turn', async () => {
  const begun: number[] = [];
  const handle = boundTurns<number>(
    (request) => begun.push(request),
    () => '127.0.0.1',
    1,
  );
  for (const request of [1, 2, 3]) handle(request);
  let aheadMs = 0;
  const now = performance.now.bind(performance);
  const late = vi.spyOn(performance, 'now').mockImplementation(() => {
    aheadMs += 20;
    return now() + aheadMs;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  late.mockRestore();
  handle(4);
  await until(() => begun.length === 4);
  expect(begun).toEqual([1, 2, 3, 4]);
});
