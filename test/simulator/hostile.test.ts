/** Tests that a simulated node survives faults of TLS connections, and JSON documents that its code cannot traverse. */
import { request } from 'node:https';
import { afterEach, expect, test } from 'vitest';
import { Certificate } from '../../shared/runtime/tls.ts';
import { parseBehaviour } from './behaviour.ts';
import { type FaultyNode, startFaultyNode } from './faulty-node.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
let node: FaultyNode | undefined;
afterEach(() => node?.close());

/** Returns the status and length of an answer over TLS, or the code of the error that ended it. */
function ask(url: string, body: object | string): Promise<string> {
  return new Promise((resolve) => {
    const options = {
      ...{ method: 'POST', rejectUnauthorized: false, agent: false },
      headers: { 'content-type': 'application/json' },
    };
    const onError = (error: NodeJS.ErrnoException): void => resolve(error.code ?? error.message);
    request(url, options, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('error', onError);
      response.on('end', () => resolve(`${response.statusCode} ${text.length > 0}`));
    })
      .on('error', onError)
      .end(typeof body === 'string' ? body : JSON.stringify(body));
  });
}

const chat = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };

test.each(['reset', 'refused'])('over TLS, connections stay %s while told to', async (mode) => {
  const certificate = new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') });
  node = await startFaultyNode({ models: ['m'], tokensPerSecond: 0, certificate });
  const url = `${node.url}/v1/chat/completions`;
  expect(await ask(url, chat)).toBe('200 true');
  node.setBehaviour(parseBehaviour({ connections: { mode } }));
  expect(await ask(url, chat)).toMatch(/^E/);
  node.setBehaviour(parseBehaviour({}));
  expect(await ask(url, chat)).toBe('200 true');
});

test.each([true, false])(
  'over TLS, an answer can be reset before its head and in its middle (stream: %s)',
  async (stream) => {
    const certificate = new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') });
    node = await startFaultyNode({ models: ['m'], tokensPerSecond: 0, certificate });
    const url = `${node.url}/v1/chat/completions`;
    const within = { kind: 'cut', afterEvents: 1, reset: true };
    for (const fault of [{ kind: 'refuse' }, within]) {
      node.setBehaviour(parseBehaviour({ rules: [{ fault }] }));
      expect(await ask(url, { ...chat, stream }), fault.kind).toMatch(/^E|hang up/);
    }
    node.setBehaviour(parseBehaviour({}));
    expect(await ask(url, chat)).toBe('200 true');
  },
);

test('a schema too deep to walk costs only its request, not the node', async () => {
  const certificate = new Certificate({ cert: fixture('first.pem'), key: fixture('first.key') });
  node = await startFaultyNode({ models: ['m'], tokensPerSecond: 0, certificate });
  const url = `${node.url}/v1/chat/completions`;
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const format = `{"type":"json_schema","json_schema":{"name":"a","schema":{"const":${deep}}}}`;
  const body = `${JSON.stringify(chat).slice(0, -1)},"response_format":${format}}`;
  expect(await ask(url, body)).toBe('500 false');
  expect(await ask(url, chat)).toBe('200 true');
});
