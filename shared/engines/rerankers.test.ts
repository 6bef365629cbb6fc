/**
 * Tests that the probe detects from an engine's own responses whether the engine only reranks. The simulated engines respond
 * as the real ones do.
 */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import type { Dialect } from '../../schemas/names.ts';
import { startSimNode } from '../../tools/simulator/sim-node.ts';
import { AskedModels } from './asked-models.ts';
import { probe } from './probe.ts';

const open: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of open.splice(0)) await close();
});

async function sim(dialect: Dialect, reranks: boolean, port = 0): Promise<string> {
  const node = await startSimNode({ models: ['a', 'b'], dialect, reranks, port, tokensPerSecond: 0 });
  open.push(() => node.close());
  return node.url;
}

async function engine(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function rerankers(url: string, dialect: Dialect, asked = new AskedModels()): Promise<unknown> {
  const probed = await probe({ url, dialect }, asked);
  return probed.up ? probed.rerankModels : probed.reason;
}

test.each([
  ['vllm', ['a', 'b']],
  ['sglang', ['a', 'b']],
  ['llamacpp', ['a', 'b']],
  ['ollama', []],
] as const)('%s shows which of its models rerank, and names no others', async (dialect, found) => {
  expect(await rerankers(await sim(dialect, true), dialect)).toEqual(found);
  expect(await rerankers(await sim(dialect, false), dialect)).toEqual([]);
});

const models = JSON.stringify({ data: [{ id: 'a' }, { id: 'b' }] });

/** Returns a handler that responds like a healthy engine, except on the given paths. */
function upBut(routes: Readonly<Record<string, readonly [status: number, body: string]>>): RequestListener {
  return ({ url = '' }, response) => {
    const [status, body] = routes[url] ?? (url === '/v1/models' ? [200, models] : [200, '{}']);
    response.writeHead(status).end(body);
  };
}

test.each([
  ['vllm', 'has every model’s routes', { '/v1/rerank': [405, ''], '/v1/embeddings': [405, ''] }],
  [
    'vllm',
    'embeds',
    { '/v1/rerank': [405, ''], '/v1/embeddings': [405, ''], '/v1/chat/completions': [404, ''] },
  ],
  ['vllm', 'asks for a credential', { '/v1/rerank': [401, ''] }],
  ['sglang', 'embeds', { '/model_info': [200, '{"is_generation":false,"architectures":["BertModel"]}'] }],
  ['sglang', 'is old', { '/model_info': [404, ''] }],
  ['sglang', 'answers garbage', { '/model_info': [200, '[{'] }],
  [
    'llamacpp',
    'has several models',
    { '/v1/rerank': [400, '{"error":{"message":"model name is missing"}}'] },
  ],
  ['llamacpp', 'answers garbage', { '/v1/rerank': [400, '{"error":7}'] }],
] as const)('a model of %s is not known to rerank if the engine %s', async (dialect, _, routes) => {
  expect(await rerankers(await engine(upBut(routes)), dialect)).toEqual([]);
});

test('vLLM is asked once for all its models, and llama.cpp for each by name', async () => {
  const seen: string[] = [];
  const url = await engine(async (request, response) => {
    let body = '';
    for await (const part of request) body += String(part);
    if (request.url?.startsWith('/v1/') && request.url !== '/v1/models')
      seen.push(`${request.method} ${body}`);
    const isSign = request.url === '/v1/rerank';
    const said = '{"error":{"message":"\\"query\\" must be provided"}}';
    response.writeHead(isSign ? 400 : 200).end(isSign ? said : models);
  });
  expect(await rerankers(url, 'llamacpp')).toEqual(['a', 'b']);
  expect(seen.splice(0)).toEqual(['POST {"model":"a"}', 'POST {"model":"b"}']);
  expect(await rerankers(url, 'vllm')).toEqual([]);
  expect(seen).toEqual(['GET ']);
});

test('known rerankers are kept while the engine is too busy to answer, and asked about again after a minute', async () => {
  let answer: readonly [number, string] = [400, '{"error":{"message":"\\"query\\" must be provided"}}'];
  let asked = 0;
  const url = await engine((request, response) => {
    if (request.url !== '/v1/rerank') return upBut({})(request, response);
    asked++;
    return response.writeHead(answer[0]).end(answer[1]);
  });
  const known = new AskedModels();
  const begin = performance.now();
  const at = (ms: number): unknown => vi.spyOn(performance, 'now').mockReturnValue(begin + ms);
  at(0);
  expect(await rerankers(url, 'llamacpp', known)).toEqual(['a', 'b']);
  answer = [501, ''];
  at(59_000);
  expect(await rerankers(url, 'llamacpp', known)).toEqual(['a', 'b']);
  expect(asked).toBe(2);
  answer = [503, ''];
  at(61_000);
  expect(await rerankers(url, 'llamacpp', known)).toEqual(['a', 'b']);
  answer = [501, ''];
  at(72_000);
  expect(await rerankers(url, 'llamacpp', known)).toEqual([]);
  expect(asked).toBe(6);
  vi.restoreAllMocks();
});
