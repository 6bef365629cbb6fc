import fc from 'fast-check';
import { expect, test } from 'vitest';
import { resolveOperation } from './operation.ts';

test.each([
  ['POST', '/v1/chat/completions', { kind: 'chat' }],
  ['POST', '/v1/embeddings', { kind: 'embeddings' }],
  ['POST', '/v1/messages', { kind: 'messages' }],
  ['POST', '/v1/messages/count_tokens', { kind: 'count-tokens' }],
  ['GET', '/v1/models', { kind: 'models' }],
  ['GET', '/v1/models/echo-small', { kind: 'model', model: 'echo-small' }],
  ['GET', '/v1/models/team/echo:v1.0', { kind: 'model', model: 'team/echo:v1.0' }],
  ['GET', '/v1/models/team%2Fecho%3Av1.0', { kind: 'model', model: 'team/echo:v1.0' }],
])('Endpoints 1, Endpoints 2, Endpoints 3: %s %s names its operation', (method, path, operation) => {
  expect(resolveOperation(method, path)).toEqual(operation);
});

test.each([
  ['GET', '/v1/chat/completions'],
  ['post', '/v1/chat/completions'],
  ['POST', '/v1/chat/completions/'],
  ['POST', '/chat/completions'],
  ['POST', '/v2/chat/completions'],
  ['POST', '/V1/chat/completions'],
  ['POST', '//v1/chat/completions'],
  ['POST', '/v1/chat/completions?a=b'],
  ['POST', '/v1/models'],
  ['HEAD', '/v1/models'],
  ['OPTIONS', '/v1/models'],
  ['GET', '/v1/models/'],
  ['GET', '/v1/modelsx'],
  ['GET', '/v1/models/%E0%A4%A'],
  ['GET', '/'],
  ['', ''],
  ['POST', 'constructor'],
  ['POST', '__proto__'],
  ['POST', 'toString'],
])('Versioning: %s %s names nothing', (method, path) => {
  expect(resolveOperation(method, path)).toEqual({ kind: 'unknown' });
});

test('any model id survives its way through a path', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z0-9._:/-]{1,200}$/), (model) => {
      expect(resolveOperation('GET', `/v1/models/${encodeURIComponent(model)}`)).toEqual({
        kind: 'model',
        model,
      });
    }),
  );
});

test('any method and path name an operation or nothing, without a throw', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.constantFrom('GET', 'POST'), fc.string()),
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.string().map((text) => `/v1/models/${text}`),
      ),
      (method, path) => {
        expect(resolveOperation(method, path)).toHaveProperty('kind');
      },
    ),
  );
});
