import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type HostNames, needsKey, resolveHost, resolveOperation } from './admission.ts';
import { Refusal } from './refusal.ts';

const names: HostNames = { shared: new Set(['api.test', '127.0.0.1', '::1']), stackDomain: 'stacks.test' };
const otter = 'stk-amber-otter-9k2f';

test.each([
  'api.test',
  'api.test:8080',
  'API.TEST',
  'api.test.',
  'api.test.:80',
  '127.0.0.1:1',
  '[::1]',
  '[::1]:8080',
  // An unclosed bracket is read as if it were closed: it can name nothing but the address in it.
  '[::1',
])('What the service does 4: %s is the shared host', (header) => {
  expect(resolveHost(header, names)).toEqual({ kind: 'shared' });
});

test.each([
  undefined,
  '',
  '.',
  ':80',
  '[',
  '[]',
  'other.test',
  'api.test..',
  'xapi.test',
  'api.test.evil.test',
  'stacks.test',
  '.stacks.test',
  `${otter}`,
  `${otter}stacks.test`,
  `${otter}.stacks.test.evil.test`,
  `www.${otter}.stacks.test`,
  'stk-otter-9k2f.stacks.test',
  'stk-amber-otter-.stacks.test',
  'stk-a1-otter-9k2f.stacks.test',
  `stk-amber-otter-${'a'.repeat(60)}.stacks.test`,
  `${otter}\u0000.stacks.test`,
])('design, host: %j is not a host of the service', (header) => {
  expect(() => resolveHost(header, names)).toThrow(expect.objectContaining({ type: 'NotFoundError' }));
});

test('Stack 1, Routing rule 2: a label of stack shape names that stack, in any case and with any port, whether or not it exists', () => {
  const word = fc.stringMatching(/^[a-z]{1,12}$/);
  const port = fc.option(fc.integer({ min: 0, max: 65_535 }), { nil: undefined });
  fc.assert(
    fc.property(
      word,
      word,
      fc.stringMatching(/^[a-z0-9]{1,12}$/),
      port,
      fc.boolean(),
      (a, b, suffix, number, loud) => {
        const stack = `stk-${a}-${b}-${suffix}`;
        const host = `${stack}.stacks.test${number === undefined ? '' : `:${number}`}`;
        expect(resolveHost(loud ? host.toUpperCase() : host, names)).toEqual({ kind: 'stack', stack });
      },
    ),
  );
});

test('any text is a host of the service or refused with NotFoundError, and the text is not repeated', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.string().map((text) => `${text}.stacks.test`),
      ),
      (header) => {
        try {
          expect(['shared', 'stack']).toContain(resolveHost(header, names).kind);
        } catch (error) {
          expect(error).toBeInstanceOf(Refusal);
          expect((error as Refusal).type).toBe('NotFoundError');
          expect((error as Refusal).message).toBe('No such host is served here.');
        }
      },
    ),
  );
});

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
  ['HEAD', '/v1/embeddings'],
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

test.each([
  ['models', false],
  ['model', false],
  ['chat', true],
  ['embeddings', true],
  ['messages', true],
  ['count-tokens', true],
  ['unknown', true],
] as const)(
  'Authentication 7: %s on the shared host needs a key: %s; on a stack host always',
  (kind, needed) => {
    const operation = kind === 'model' ? { kind, model: 'm' } : { kind };
    expect(needsKey({ kind: 'shared' }, operation)).toBe(needed);
    expect(needsKey({ kind: 'stack', stack: 'stk-never-made-3' }, operation)).toBe(true);
  },
);
