/** Tests that a look-up by the method and path of each operation in the table returns that operation. */
import { expect, test } from 'vitest';
import { buildFacts } from '../../control-plane/explain/question.ts';
import { resolveOperation } from '../../shared/decision/admission.ts';
import { explainedKinds, listPaths, operationKinds, operations, pathSurface } from './operations.ts';

test.each(operationKinds)('a question about %s is decided like such a request', (operation) => {
  const asked = {
    operation,
    host: 'shared',
    model: 'team/a$&b',
    promptTokensMax: 1,
    maxTokens: undefined,
  } as const;
  const { method, path } = buildFacts({ ...asked, credential: { fault: 'missing', carried: false } });
  expect(resolveOperation(method, path)).toMatchObject({ kind: operation });
});

test('a path uses the API of its row, and an unlisted path that of OpenAI unless it begins like another’s', () => {
  for (const kind of operationKinds) {
    const { path, surface } = operations[kind];
    expect(pathSurface(path)).toBe(surface === 'any' ? 'openai' : surface);
  }
  expect(pathSurface('/v1/messages/batches')).toBe('anthropic');
  expect(explainedKinds).toEqual(['chat', 'responses', 'messages', 'embeddings', 'rerank', 'models']);
});

test('one operation may have several paths, but no path has two operations', () => {
  for (const path of ['/v1/rerank', '/v2/rerank', '/rerank']) {
    expect(resolveOperation('POST', path)).toEqual({ kind: 'rerank' });
    expect(resolveOperation('GET', path)).toEqual({ kind: 'unknown' });
  }
  const all = operationKinds.flatMap(listPaths);
  expect(new Set(all).size).toBe(all.length);
});
