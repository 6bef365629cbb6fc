/**
 * Tests the strict reader of bodies. It must agree with JSON.parse on everything that it accepts, and refuse text that two
 * readers could understand differently.
 */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../../test/support/cpu.ts';
import { jsonDepthMax, jsonNamesMax, jsonValuesMax, parseStrictJson } from './json-text.ts';

const parse = (text: string) => parseStrictJson(Buffer.from(text));

test('any JSON value is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 8 }), fc.nat(2), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      if (text.includes('__proto__')) return;
      expect(parse(text)).toEqual(JSON.parse(text));
    }),
  );
});

test('a repeated name is refused at any depth, but a text that only looks like one is not', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string(), fc.jsonValue()), { maxLength: 6 }), (pairs) => {
      const names = pairs.map(([name]) => name);
      if (names.includes('__proto__') || JSON.stringify(pairs).includes('__proto__')) return;
      const object = `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`;
      const text = `{"outer":[1,${object}]}`;
      if (new Set(names).size === names.length) expect(parse(text)).toEqual(JSON.parse(text));
      else expect(() => parse(text)).toThrow(': is given twice');
    }),
  );
});

test.each<[string, string | Buffer, string]>([
  ['nothing', '', 'not valid JSON'],
  ['an unclosed object', '{"a":', 'not valid JSON'],
  ['an unclosed string', '{"a\\"', 'not valid JSON'],
  ['a number that JSON does not allow', '{"a":NaN}', 'not valid JSON'],
  ['a byte order mark', '\ufeff{}', 'not valid JSON'],
  ['two values', '{}{}', 'not valid JSON'],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'not valid UTF-8'],
  ['a surrogate encoded in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'not valid UTF-8'],
  ['an escaped lone surrogate', '{"a":"x\\uD83d"}', 'half a surrogate pair'],
  ['a lone surrogate in a name', '{"\\udc00":1}', 'half a surrogate pair'],
  ['the name __proto__', '{"a":[0,{"__proto__":{"b":1}}]}', 'a[1].__proto__: is not allowed as a name'],
  ['the name __proto__, escaped', '{"\\u005f_proto__":1}', '__proto__: is not allowed as a name'],
  ['a repeated name', '{"a":1,"a":1}', 'a: is given twice'],
  ['a repeated name, once escaped', '{"a":1,"\\u0061":2}', 'a: is given twice'],
  ['a repeated name at a deep level', '{"x":[[1,2],{"y":{"a":1,"b":2,"a":3}}]}', 'x[1].y.a: is given twice'],
  ['a repeated name next to colons and quotes', '{"a":"\\":\\\\","a":":"}', 'a: is given twice'],
])('a body is refused: %s', (_, text, message) => {
  expect(() => parseStrictJson(Buffer.from(text as string))).toThrow(message);
});

test('an escaped surrogate pair is accepted', () => {
  expect(parse('{"a":"\\ud83d\\ude00"}')).toEqual({ a: '😀' });
});

test('nesting is accepted up to the limit and refused beyond it, before parsing', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  expect(() => parse(nested(jsonDepthMax))).not.toThrow();
  expect(() => parse(nested(jsonDepthMax + 1))).toThrow('nested deeper than 64');
  expect(() => parse('{"a":'.repeat(1_000_000))).toThrow('nested deeper than 64');
});

test('names and values are accepted up to their limits and refused beyond them, before parsing', () => {
  const names = (count: number) => `[${Array.from({ length: count }, () => '{"a":1}').join()}]`;
  expect(parse(names(jsonNamesMax))).toHaveLength(jsonNamesMax);
  expect(() => parse(names(jsonNamesMax + 1))).toThrow(`more than ${jsonNamesMax} names`);
  expect(() => parse(`[1${',1'.repeat(jsonValuesMax)}`)).toThrow(`more than ${jsonValuesMax} values`);
});

test('brackets inside strings do not nest', () => {
  expect(parse(JSON.stringify('[{'.repeat(500)))).toBe('[{'.repeat(500));
});

test('a megabyte of escaped quotes is read in linear time', () => {
  const text = '\\"'.repeat(500_000);
  expect(cpuMsOf(() => expect(parse(JSON.stringify(text))).toBe(text))).toBeLessThan(2000);
});

const list = (values: number) => `[${'0,'.repeat(values - 2)}0]`;
const object = (names: number) => `{${Array.from({ length: names }, (_, n) => `"k${n}":0`).join()}}`;

test.each([
  ['names', object(50_001), 'more than 50000 names'],
  ['values', list(500_001), 'more than 500000 values'],
  ['values that are not JSON', `${'['.repeat(10)}${'0,'.repeat(500_001)}`, 'more than 500000 values'],
])('more %s than a request needs are refused before anything is parsed', (_, text, message) => {
  expect(() => parse(text)).toThrow(message);
});

test('the maximum numbers of names and values are accepted', () => {
  expect(Object.keys(parse(object(50_000)) as object)).toHaveLength(50_000);
  expect(parse(list(500_000))).toHaveLength(499_999);
});
