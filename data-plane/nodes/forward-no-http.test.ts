/**
 * Tests nodes that do not answer in HTTP. They must count as failed, and neither the client nor the log may see their bytes.
 */
import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { post, routeTo, startForwardServer } from '../../test/support/forward-server.ts';
import { portOf } from '../../test/support/listen.ts';

const completion = 'a-completion-that-nobody-may-log';

async function nodeThatAnswers(bytes: string): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', () => socket.end(bytes));
  });
  const port = await portOf(server);
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${port}`;
}

const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';

test.each([
  ['both framings', `${head}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n${completion}`],
  ['a negative length', `${head}content-length: -1\r\n\r\n${completion}`],
  ['no status', `HTTP/1.1 0 ${completion}\r\n\r\n`],
  ['no status line', `${completion}\r\n\r\n`],
  ['a broken header', `${head}x\0y: ${completion}\r\n\r\n`],
  ['a chunk without a size', `${head}transfer-encoding: chunked\r\n\r\nzz\r\n${completion}\r\n`],
  ['bytes after its chunks', `${head}transfer-encoding: chunked\r\n\r\n1\r\n {${completion}`],
])('an answer with %s is a failure of the node, and none of its bytes is kept', async (_what, bytes) => {
  const server = await startForwardServer({ candidates: [routeTo(await nodeThatAnswers(bytes))] });
  onTestFinished(() => server.close());
  const chat = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };
  const { status, text } = await post(`${server.url}/v1/chat/completions`, chat).answer;
  const ended = await server.next();
  expect(status).toBe(503);
  expect(ended).toMatchObject({ kind: 'refused', type: 'InferenceUnavailableError' });
  expect(inspect(ended, { depth: 9 }) + text).not.toContain(completion);
  expect(server.load.inFlightTotal()).toBe(0);
});
