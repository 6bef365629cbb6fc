/**
 * Tests how the console reads API answers. No text may reach a page with invisible characters, however the answer encodes
 * them.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDocument } from '../../console/lib/documents.ts';
import { printable } from '../../schemas/printable.ts';
import { runs } from '../support/budget.ts';

const unsafe = [
  '\u0000',
  '\u001b',
  '\r',
  '\b',
  '\u007f',
  '\u0085',
  '\u200b',
  '\u2028',
  '\u202e',
  '\ufeff',
  '\ud800',
];
const plain = ['a', '"', '\\', '/', '\n', '\t', 'é', '漢', '\\u001b'];
const texts = fc.array(fc.constantFrom(...unsafe, ...plain), { maxLength: 6 }).map((parts) => parts.join(''));

test('every text in a response is printable, either as it is or escaped', () => {
  fc.assert(
    fc.property(texts, fc.boolean(), (text, isEscaped) => {
      const written = JSON.stringify({ items: [text, 1] });
      const ascii = written.replace(
        /[^ -~]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
      );
      expect(parseDocument(isEscaped ? ascii : written)).toEqual({ items: [printable(text, '\n\t'), 1] });
    }),
    { numRuns: runs({ fast: 200, full: 2000 }) },
  );
  expect(parseDocument('{"items": [')).toBe(undefined);
});
