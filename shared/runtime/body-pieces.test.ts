/** Tests bodies that arrive in very small pieces, over real sockets. */
import { createServer } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { until } from '../../test/support/until.ts';
import { ClientGone, dropBody, readPieces } from './body-pieces.ts';

const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
const inPieces = '1\r\n \r\n'.repeat(200_000);

test.each(['is read', 'is refused', 'is dropped'])(
  'a body in one-byte pieces that %s ends its connection, and others are served',
  async (how) => {
    const ends: string[] = [];
    let pieces = 0;
    const server = createServer((request, response) => {
      if (how === 'is dropped' && ends.length === 0) {
        request.on('close', () => ends.push('gone'));
        dropBody(request);
        request.on('data', () => pieces++);
        return;
      }
      readPieces(request, () => {
        if (pieces++ > 100 && how === 'is refused' && ends.length === 0) throw new Error('refused');
      }).then(
        () => response.end('read'),
        (error: Error) => ends.push(error instanceof ClientGone ? 'gone' : error.message),
      );
    });
    const at = { host: '127.0.0.1', port: await portOf(server), tls: false };
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    const hostile = await RawPeer.open(at);
    await hostile.send(head + inPieces);
    await hostile.closed;
    await until(() => ends.length > 0);
    expect(ends).toEqual([how === 'is refused' ? 'refused' : 'gone']);
    // Node still passes on everything that it had already read from the socket when the limit was reached.
    expect(pieces).toBeLessThan(2 * 65_536);
    const peer = await RawPeer.open(at);
    await peer.send(`${head}10\r\n${'x'.repeat(16)}\r\n0\r\n\r\n`);
    await peer.received(/read/);
    peer.close();
  },
);
