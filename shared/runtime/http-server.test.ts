/** Tests rules for the connections of every `node:http` listener, with a client that does not read. */
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { until } from '../../test/support/until.ts';
import { Connections } from './connections.ts';
import { createHttpServer, refuseAsText } from './http-server.ts';
import { Certificate } from './tls.ts';

const fixture = (name: string): string =>
  new URL(`../../test/fixtures/tls/${name}`, import.meta.url).pathname;
const certificate = new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') });
const timeouts = { headersTimeoutMs: 10_000, requestTimeoutMs: 10_000, keepAliveTimeoutMs: 60_000 };

test.each([false, true])(
  'a client that reads nothing is cut off whatever it sends, but an idle client is not (TLS: %s)',
  async (tls) => {
    const server = createHttpServer(
      {
        ...{ name: 'admin', badHttp: refuseAsText, ...timeouts, stallTimeoutMs: 200 },
        connections: new Connections({ registry: new Registry() }),
        certificate: tls ? certificate : undefined,
      },
      ({ url }, response) => response.end(url === '/large' ? 'x'.repeat(30_000_000) : 'ok'),
    );
    const endpoint = { host: '127.0.0.1', port: await portOf(server), tls };
    const [idle, used, stalled] = [
      await RawPeer.open(endpoint),
      await RawPeer.open(endpoint),
      await RawPeer.open(endpoint),
    ];
    onTestFinished(() => {
      for (const peer of [idle, used, stalled]) peer.close();
      server.close();
      server.closeAllConnections();
    });
    await used.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await used.received(/ok$/);
    stalled.pause();
    await stalled.send('GET /large HTTP/1.1\r\nHost: a\r\n\r\n');
    const drip = setInterval(() => void stalled.send('G'), 5);
    onTestFinished(() => clearInterval(drip));
    const open = (): Promise<number> =>
      new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
    await until(async () => (await open()) === 2);
    expect([idle.isClosed, used.isClosed]).toEqual([false, false]);
  },
);
