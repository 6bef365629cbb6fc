import { expect, test } from 'vitest';
import { pickChatModel, reranks } from '../../console/lib/model-kinds.ts';

test.each([
  [['bge-reranker-v2-m3', 'text-embed', 'echo-small'], 'echo-small'],
  [['Qwen3-Reranker', 'text-embed'], 'text-embed'],
  [['mxbai-rerank'], undefined],
  [[], undefined],
])('of %j one chats with %s', (models, chosen) => {
  expect(pickChatModel(models)).toBe(chosen);
});

test('a model that reranks says so in its name', () => {
  expect(['jina-reranker', 'Rerank-1', 'echo-small'].filter(reranks)).toEqual(['jina-reranker', 'Rerank-1']);
});
