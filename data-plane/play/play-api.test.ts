/** Calls of the page over real HTTP, where the client does not wait for the answer. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from 'vitest';
import { BodyBudget } from '../core/byte-budget.ts';
import type { EarlyRefusal, Gateway } from '../request/gateway.ts';
import { proxyList } from './network.ts';
import { PlayApi } from './play-api.ts';

test('a client that leaves before its body is whole was refused nothing', async () => {
  const refused: EarlyRefusal[] = [];
  const gateway = {
    bodies: new BodyBudget(),
    observeEarly: (refusal: EarlyRefusal) => refused.push(refusal),
  } as unknown as Gateway;
  const options = { gateway, gatewayToken: 'token-a', proxies: proxyList([]), isTls: false };
  const api = new PlayApi({ ...options, consoleUrl: undefined });
  const server = createServer();
  const handled = once(server, 'request').then(async ([request, response]) => {
    client.destroy();
    await api.handle(request, response);
    return response.destroyed;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect(port, '127.0.0.1');
  const head = ['content-type: application/json', 'sec-fetch-site: same-origin', 'content-length: 100'];
  client.write(`POST /api/visitor HTTP/1.1\r\nhost: 127.0.0.1\r\n${head.join('\r\n')}\r\n\r\n{`);
  try {
    expect(await handled).toBe(true);
    expect(refused).toEqual([]);
  } finally {
    server.close();
  }
});
