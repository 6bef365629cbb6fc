import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Lookup } from '../snapshot/lookup.ts';
import { admit, type HostNames, resolveHost, resolveOperation } from './admission.ts';
import { Refusal } from './refusal.ts';

const names: HostNames = { shared: new Set(['api.test', '127.0.0.1', '::1']), stackDomain: 'stacks.test' };

test('Stack 1, Routing rule 2: a stack-shaped label names that stack, in any case, with any port, existing or not', () => {
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

test('Stack 1: `*` makes every name the shared host, except names that begin with a stack', () => {
  const any: HostNames = { shared: new Set(['*']), stackDomain: 'stacks.test' };
  for (const host of ['box.lan:8080', '192.0.2.7', '[::1]:8080', 'stacks.test', 'a.stacks.test'])
    expect(resolveHost(host, any)).toEqual({ kind: 'shared' });
  const stack = 'stk-amber-otter-9k2f';
  expect(resolveHost(`${stack}.stacks.test`, any)).toEqual({ kind: 'stack', stack });
  for (const host of [stack, `${stack}.box.lan`, `${stack}.a.stacks.test`])
    expect(() => resolveHost(host, any)).toThrow(Refusal);
});

test('any text is either a host of the service or refused with NotFoundError, without repeating the text', () => {
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
          expect((error as Refusal).message).toBe('This host is not served here. Check the hostname.');
        }
      },
    ),
  );
});

test('the refusal of a path with an extra slash says so, and no path is mistaken for a model', () => {
  const lookup = { listing: () => [], isPooled: () => false } as unknown as Lookup;
  const messageOf = (method: string, path: string): string => {
    const visitor = { visitor: 'v', network: undefined, authorization: undefined, xApiKey: undefined };
    const head = { ...visitor, host: 'api.test', method, path };
    try {
      admit(lookup, names, head, { fenced: false, nowMs: 0 }, {});
      return 'admitted';
    } catch (error) {
      return error instanceof Refusal ? `${error.type}: ${error.message}` : String(error);
    }
  };
  const nothing = 'NotFoundError: No endpoint has this method and path.';
  for (const [method, path] of [
    ['POST', '//v1/chat/completions'],
    ['POST', '/v1//chat/completions'],
    ['POST', '/v1/chat/completions/'],
    ['GET', '/v1/models/'],
    ['GET', '/v1/models/m/'],
    ['GET', '/v1/models/m%2F'],
    ['GET', '//v1/models/m//'],
  ] as const)
    expect([path, messageOf(method, path)]).toEqual([
      path,
      path.endsWith('F') ? nothing : `${nothing} Remove the extra slash.`,
    ]);
  for (const path of ['/', '//', '/v2/models/', '/v1/chat/completions/'])
    expect([path, messageOf('GET', path)]).toEqual([path, nothing]);
});

test('any model id survives the round trip through a path', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z0-9._:/-]{0,199}[A-Za-z0-9._:-]$/), (model) => {
      expect(resolveOperation('GET', `/v1/models/${encodeURIComponent(model)}`)).toEqual({
        kind: 'model',
        model,
      });
    }),
  );
});

test('any method and path resolve to an operation or nothing, without throwing', () => {
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
