import { createServer } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import type { Dialect } from '../../schemas/names.ts';
import type { Fault } from '../../test/simulator/behaviour.ts';
import { type FaultyNode, startFaultyNode } from '../../test/simulator/faulty-node.ts';
import { routeTo } from '../../test/support/forward-server.ts';
import { portOf } from '../../test/support/listen.ts';
import { until, within } from '../../test/support/until.ts';
import { BodyWorker } from '../body-worker/body-worker.ts';
import { shapeChat } from '../surfaces/chat/shape-chat.ts';
import { shapeEmbeddings } from '../surfaces/embeddings/shape-embeddings.ts';
import { createPromptCounter } from './count-tokens.ts';
import { NodePools } from './node-pools.ts';

const { asked: shaped } = shapeChat({
  model: 'm',
  messages: [{ role: 'user', content: 'a'.repeat(40) }],
});
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

async function sim(dialect: Dialect, ...faults: Fault[]): Promise<FaultyNode> {
  const paths = ['/tokenize', '/v1/chat/completions/input_tokens'];
  const rules = faults.flatMap((fault) => paths.map((path) => ({ match: { path }, fault })));
  const node = await startFaultyNode({ models: ['m'], dialect, behaviour: { rules } });
  open.push(node);
  return node;
}

function pools(): NodePools {
  const opened = new NodePools({ credential: () => undefined, tickMs: 5 });
  open.push(opened);
  return opened;
}

test.each<Dialect>(['vllm', 'sglang', 'llamacpp'])(
  'the tokeniser endpoint of %s counts the tokens of a prompt',
  async (dialect) => {
    const node = await sim(dialect);
    // The simulated node counts one token per four bytes, and 3 per message.
    expect(
      await createPromptCounter(pools(), new BodyWorker())(routeTo(node.url, { dialect }), shaped, 'one'),
    ).toBe(13);
  },
);

test('an engine that cannot count tokens is not asked', async () => {
  const node = await sim('ollama');
  expect(
    await createPromptCounter(pools(), new BodyWorker())(
      routeTo(node.url, { dialect: 'ollama' }),
      shaped,
      'one',
    ),
  ).toBeUndefined();
  expect(node.stats().requests).toBe(0);
});

test('embeddings are not counted', async () => {
  const node = await sim('vllm');
  const { asked } = shapeEmbeddings({ model: 'm', input: 'a' });
  expect(
    await createPromptCounter(pools(), new BodyWorker())(routeTo(node.url), asked, 'one'),
  ).toBeUndefined();
});

test('a request that the dialect cannot carry is not counted; forwarding refuses it', async () => {
  const node = await sim('llamacpp');
  const two = { ...shaped, body: { ...shaped.body, n: 2 } };
  expect(
    await createPromptCounter(pools(), new BodyWorker())(
      routeTo(node.url, { dialect: 'llamacpp' }),
      two,
      'one',
    ),
  ).toBeUndefined();
});

test.each<[string, Fault]>([
  ['is silent', { kind: 'stall' }],
  ['fails', { kind: 'status', status: 500 }],
  ['redirects', { kind: 'redirect', location: 'http://127.0.0.1:1/' }],
  ['does not answer with JSON', { kind: 'content-type', contentType: 'text/plain' }],
  ['answers with other JSON', { kind: 'status', status: 200, body: { count: 'many' } }],
  ['resets the connection', { kind: 'refuse' }],
])('a node that %s gives no count', async (_name, fault) => {
  const node = await sim('vllm', fault);
  const opened = pools();
  const count = createPromptCounter(opened, new BodyWorker(), { countMs: 100 });
  expect(await within(1500, Promise.resolve(count(routeTo(node.url), shaped, 'one')))).toBeUndefined();
  expect(opened.answerBytes.usedBytes).toBe(0);
  expect(opened.ticker.size).toBe(0);
});

test('an endless answer to a count is read only up to its bound', async () => {
  let isOpen = true;
  const node = createServer(async (_request, response) => {
    response.on('error', () => undefined);
    response.on('close', () => {
      isOpen = false;
    });
    response.writeHead(200, { 'content-type': 'application/json' });
    for (let sent = 0; sent < 20_000_000 && isOpen; sent += 65_536) {
      response.write(' '.repeat(65_536));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end('{"count":7}');
  });
  const port = await portOf(node);
  open.push({
    close: async () => {
      node.closeAllConnections();
      node.close();
    },
  });
  const opened = pools();
  const url = `http://127.0.0.1:${port}`;
  const counting = createPromptCounter(opened, new BodyWorker(), { countMs: 20_000 });
  expect(await counting(routeTo(url), shaped, 'one')).toBeUndefined();
  await until(() => !isOpen);
  expect(opened.answerBytes.usedBytes).toBe(0);
});

test('answers to one tenant’s counts leave memory for answers to others', async () => {
  const opened = pools();
  const part = ' '.repeat(3_900_000);
  const node = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write(part);
  });
  const port = await portOf(node);
  open.push({
    close: async () => {
      node.closeAllConnections();
      node.close();
    },
  });
  const count = createPromptCounter(opened, new BodyWorker(), { countMs: 3000 });
  const share = 64 * 1024 * 1024;
  let ended = 0;
  for (let i = 0; i < 20; i++)
    void count(routeTo(`http://127.0.0.1:${port}`), shaped, 'one').then(() => ended++);
  await until(() => ended > 0 || opened.answerBytes.usedBytes > share);
  expect(opened.answerBytes.usedBytes).toBeLessThanOrEqual(share);
});
