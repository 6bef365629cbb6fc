/** Bodies in very small pieces, over real sockets. */
import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { BodyBudget } from './byte-budget.ts';
import { ClientGone, discardRest, readWhole } from './request-body.ts';

const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
const inPieces = '1\r\n \r\n'.repeat(10_000);

test.each([
  ['is read', 1_000_000],
  ['is refused, and the rest of it dropped', 100],
])(
  'a body in pieces of one byte that %s ends its connection after few, and its parser serves others',
  async (_, bytesMax) => {
    const ends: string[] = [];
    let pieces = 0;
    const server = createServer((request, response) => {
      request.on('data', () => pieces++);
      const refusal = (fault: string): Error => new Error(fault);
      readWhole(request, { bytesMax, memory: new BodyBudget(), refusal }).then(
        ({ bytes }) => {
          ends.push(`${bytes.length}`);
          response.end('read');
        },
        (error: Error) => {
          ends.push(error instanceof ClientGone ? 'gone' : error.message);
          response.end('refused');
          discardRest(request);
        },
      );
    });
    const port = await portOf(server);
    const at = { host: '127.0.0.1', port, tls: false };
    const hostile = await RawPeer.open(at);
    await hostile.send(head + inPieces);
    await hostile.closed;
    expect(ends).toEqual([bytesMax > 100 ? 'gone' : 'large']);
    expect(pieces).toBeLessThan(3_000);
    for (const length of ['10', '10']) {
      const peer = await RawPeer.open(at);
      await peer.send(`${head}${length}\r\n${'x'.repeat(16)}\r\n0\r\n\r\n`);
      await peer.received(/read/);
      peer.close();
    }
    expect(ends.slice(1)).toEqual(['16', '16']);
    server.close();
    server.closeAllConnections();
  },
);
