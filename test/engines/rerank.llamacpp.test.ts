/**
 * Tests a real llama.cpp server started with `--reranking`, behind a gateway that detects this. Answers must have the form of
 * the simulated node's answers. Because the weights are random, scores mean nothing, so the test only checks that they are
 * ordered numbers and that token counts are right.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, call, chat, expectRefusal } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { usageReaches } from '../support/witness.ts';
import { llamaServer } from './llamacpp.ts';
import type { ServerProcess } from './server-process.ts';

const model = 'tiny-rerank';
const dir = mkdtempSync(join(tmpdir(), 'headgate-rerank-'));
let server: ServerProcess;
let fleet: TestFleet;
let key: string;

beforeAll(async () => {
  server = await llamaServer(dir, model, ['-c', '2048', '-np', '1', '--reranking']);
  await server.start();
  fleet = await startFleet({
    fleet: (urls) => {
      const { models = [], pool, ...spec } = specFleet(urls);
      const node = { id: 'real-1', url: server.url, dialect: 'llamacpp' } as const;
      return {
        ...spec,
        models: [...models, { id: model, family: 'tiny' }],
        pool: { models: [...(pool?.models ?? []), model], nodes: [...(pool?.nodes ?? []), node] },
      };
    },
  });
  await fleet.admin.call('POST', '/organisations', { id: 'reader', name: 'Reader', tier: 'Platinum' });
  key = (await fleet.key('reader')).value;
  await fleet.settle();
});
afterAll(async () => {
  await fleet?.close();
  await server?.end();
  rmSync(dir, { recursive: true, force: true });
});

const documents = ['a well', 'the water is here', 'no', 'a well'];

function rerank(more: object = {}): Promise<Answer> {
  const body = { model, query: 'the water', documents, ...more };
  return call({ port: fleet.port(), key, method: 'POST', path: '/v1/rerank', body });
}

interface Result {
  readonly index: number;
  readonly relevance_score: number;
}

test('documents are scored one by one, sorted, in their own order if equal, and billed by the server’s count', async () => {
  const answer = await rerank();
  expect(answer.status).toBe(200);
  const { results, usage } = JSON.parse(answer.content) as {
    results: Result[];
    usage: { total_tokens: number };
  };
  expect(results.map(({ index }) => index).sort()).toEqual([0, 1, 2, 3]);
  const scores = results.map(({ relevance_score }) => relevance_score);
  expect(scores).toEqual(scores.toSorted((a, b) => b - a));
  const [first, second] = results.filter(({ index }) => index === 0 || index === 3);
  expect(first?.relevance_score).toBe(second?.relevance_score);
  expect([first?.index, second?.index]).toEqual([0, 3]);
  expect(usage.total_tokens).toBeGreaterThan(0);
  const cut = JSON.parse((await rerank({ top_n: 1, return_documents: true })).content);
  expect(cut.results).toEqual([{ ...results[0], document: { text: documents[results[0]?.index ?? -1] } }]);
  expect(await usageReaches(fleet, 'reader', 2)).toEqual({
    requests: 2,
    totalTokens: 2 * usage.total_tokens,
  });
});

test('a rerank model is never asked for a chat, although the server would answer', async () => {
  const answer = await chat({ port: fleet.port(), key, model });
  expect(expectRefusal(answer, 'UnsupportedShapeError').message).toContain('/v1/rerank');
});

test('a document too long for the model is refused for its length', async () => {
  expectRefusal(await rerank({ documents: ['a', 'xy '.repeat(3000)] }), 'ContextWindowExceededError');
});
