import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type HostNames, resolveHost, resolveOperation } from './admission.ts';
import { Refusal } from './refusal.ts';

const names: HostNames = { shared: new Set(['api.test', '127.0.0.1', '::1']), stackDomain: 'stacks.test' };

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

test('Stack 1: `*` takes every name for the shared host, but never one that begins with a stack', () => {
  const any: HostNames = { shared: new Set(['*']), stackDomain: 'stacks.test' };
  for (const host of ['box.lan:8080', '192.0.2.7', '[::1]:8080', 'stacks.test', 'a.stacks.test'])
    expect(resolveHost(host, any)).toEqual({ kind: 'shared' });
  const stack = 'stk-amber-otter-9k2f';
  expect(resolveHost(`${stack}.stacks.test`, any)).toEqual({ kind: 'stack', stack });
  for (const host of [stack, `${stack}.box.lan`, `${stack}.a.stacks.test`])
    expect(() => resolveHost(host, any)).toThrow(Refusal);
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
