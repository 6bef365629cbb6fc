// Runs a TLS client whose certificate authority is added to the file of NODE_EXTRA_CA_CERTS only after the start. Needs a
// process of its own, because authorities apply to the whole process. Prints the outcomes that the client saw, and the log,
// as JSON.
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { ExtraAuthorities } from '../../dist/shared/runtime/tls.js';

const { FIXTURES: fixtures, NODE_EXTRA_CA_CERTS: file } = process.env;
const fixture = (name) => readFileSync(join(fixtures, name));
const server = createServer({ cert: fixture('first.pem'), key: fixture('first.key') }, (socket) =>
  socket.end(),
);
server.on('tlsClientError', () => undefined);
server.listen(0, '127.0.0.1');
await once(server, 'listening');

async function seen() {
  const socket = connect({ port: server.address().port, host: '127.0.0.1' });
  const outcome = await Promise.race([
    once(socket, 'secureConnect').then(() => 'trusted'),
    new Promise((resolve) => socket.once('error', () => resolve('refused'))),
  ]);
  socket.destroy();
  return outcome;
}

const lines = [];
const note = (first, text) => lines.push(text ?? first);
const logger = { info: note, warn: note, error: note };
const authorities = new ExtraAuthorities(file);
authorities.renew(logger, false);
const before = await seen();
copyFileSync(join(fixtures, 'ca.pem'), file);
authorities.renew(logger, false);
authorities.renew(logger, false);
const after = await seen();
writeFileSync(file, 'half a certi');
authorities.renew(logger, false);
authorities.renew(logger, false);
const kept = await seen();
server.close();
process.stdout.write(JSON.stringify({ before, after, kept, lines }));
