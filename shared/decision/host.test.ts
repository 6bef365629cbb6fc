import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type HostNames, resolveHost } from './host.ts';
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
])('design, host: %j is no host of ours', (header) => {
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

test('any text is a host of ours or refused with NotFoundError, and the text is not repeated', () => {
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
