/** Baseline for the benches: a Node proxy on node:http and undici without checks or counts. `node bare-proxy.js UPSTREAM` */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

const pool = new Pool(process.argv[2] ?? '', { connections: null, pipelining: 1 });
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    pool
      .stream(
        {
          path: request.url ?? '/',
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: Buffer.concat(chunks),
        },
        ({ statusCode, headers }) =>
          response.writeHead(statusCode, {
            'content-type': String(headers['content-type']),
            ...(headers['content-length'] !== undefined && {
              'content-length': String(headers['content-length']),
            }),
          }),
      )
      .catch(() => response.destroy());
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
