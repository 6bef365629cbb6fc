import fc from 'fast-check';
import { expect, test } from 'vitest';
import { arrayText, scanJson } from './json-scan.ts';

const unbounded = { depth: 1e9, names: 1e9, values: 1e9 };

function countsOf(value: unknown): { names: number; values: number } {
  const counts = { names: 0, values: 1 };
  if (typeof value !== 'object' || value === null) return counts;
  for (const entry of Array.isArray(value) ? value : Object.values(value)) {
    const inner = countsOf(entry);
    counts.names += inner.names;
    counts.values += inner.values;
  }
  if (!Array.isArray(value)) counts.names += Object.keys(value).length;
  return counts;
}

test('names and values are counted as the parser sees them, with any strings and white space', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), fc.nat(3), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      expect(scanJson(text, unbounded)).toMatchObject(countsOf(JSON.parse(text)));
    }),
  );
});

test('the text of an array member is found at any position, but not that of other values', () => {
  const members = fc.dictionary(fc.constantFrom('a', 'b', 'c', '"a"'), fc.jsonValue({ maxDepth: 3 }));
  fc.assert(
    fc.property(members, fc.nat(3), (object, indent) => {
      const found = arrayText(JSON.stringify(object, null, indent), 'a');
      const { a } = object;
      expect(found && JSON.parse(found)).toEqual(
        Array.isArray(a) ? JSON.parse(JSON.stringify(a)) : undefined,
      );
    }),
  );
  expect(arrayText('{"b":"a","a" : [ 1 ] }', 'a')).toBe('[ 1 ]');
  expect(arrayText('{"\\u0061":[]}', 'a')).toBeUndefined();
});

test.each([
  ['[[[1]]]', { depth: 2 }, 'depth'],
  ['[[[1]]]', { depth: 3 }, undefined],
  ['{"a":{"b":1}}', { names: 1 }, 'names'],
  ['{"a":{"b":1}}', { names: 2 }, undefined],
  ['[1,2,3]', { values: 3 }, 'values'],
  ['[1,2,3]', { values: 4 }, undefined],
  ['[{},{},{}]', { values: 9, containers: 3 }, 'values'],
  ['[{},{},{}]', { values: 9, containers: 4 }, undefined],
  ['["[[[,,,:::"]', { depth: 1, names: 0, values: 2 }, undefined],
  ['["\\"[[[,,,:::\\\\"]', { depth: 1, names: 0, values: 2 }, undefined],
])('%s with the bounds %o', (text, bounds, exceeded) => {
  expect(scanJson(text, { ...unbounded, ...bounds }).exceeded).toBe(exceeded);
});

test.each(['"', '["', '"\\', '{"a', ''])('truncated text is scanned to its end: %s', (text) => {
  expect(scanJson(text, unbounded).exceeded).toBeUndefined();
});
