import { expect, test } from 'vitest';
import { pickChatModel, reranks } from '../../console/lib/model-kinds.ts';

test.each([
  [['bge-reranker-v2-m3', 'text-embed', 'echo-small'], 'echo-small'],
  [['Qwen3-Reranker', 'text-embed'], 'text-embed'],
  [['mxbai-rerank'], undefined],
  [[], undefined],
])('the models of %j offered for chat are %s', (models, chosen) => {
  expect(pickChatModel(models)).toBe(chosen);
});

test('a rerank model shows that next to its name', () => {
  expect(['jina-reranker', 'Rerank-1', 'echo-small'].filter(reranks)).toEqual(['jina-reranker', 'Rerank-1']);
});
