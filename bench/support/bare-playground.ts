/**
 * Stands in for a playground that does no work: `node bare-playground.js` prints its port. Each third attempt gets a cookie, and
 * each turn is refused, so that an attack on it shows what the attack alone costs the machine.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

let attempts = 0;
const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    const isVisitor = request.url === '/api/visitor';
    if (isVisitor && attempts++ % 3 === 0)
      response.setHeader('set-cookie', `visitor=${'c'.repeat(100)}; Path=/`);
    response.writeHead(isVisitor ? 200 : 429, { 'content-type': 'application/json' });
    response.end(isVisitor ? '{"work":{}}' : '{"error":{"type":"Refused"}}');
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(String((server.address() as AddressInfo).port)));
