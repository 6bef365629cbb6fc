/** The strict reader of bodies: it agrees with JSON.parse on all that it takes, and refuses what could be read twice. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test/support/cpu.ts';
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

test('a name given twice is refused wherever it stands, and a name that only looks so is not', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string(), fc.jsonValue()), { maxLength: 6 }), (pairs) => {
      const names = pairs.map(([name]) => name);
      if (names.includes('__proto__') || JSON.stringify(pairs).includes('__proto__')) return;
      const object = `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`;
      const text = `{"outer":[1,${object}]}`;
      if (new Set(names).size === names.length) expect(parse(text)).toEqual(JSON.parse(text));
      else expect(() => parse(text)).toThrow('the same name twice');
    }),
  );
});

test.each([
  { name: 'plain', text: '{"a":1,"a":1}' },
  { name: 'by an escape', text: '{"a":1,"\\u0061":2}' },
  { name: 'deep inside', text: '{"x":[{"y":{"a":1,"b":2,"a":3}}]}' },
  { name: 'next to strings with colons and quotes', text: '{"a":"\\":\\\\","a":":"}' },
])('a name given twice is refused: $name', ({ text }) => {
  expect(() => parse(text)).toThrow('an object of the body has the same name twice');
});

test.each([
  { name: 'nothing', raw: Buffer.from(''), message: 'not valid JSON' },
  { name: 'an open object', raw: Buffer.from('{"a":'), message: 'not valid JSON' },
  { name: 'an open string', raw: Buffer.from('{"a\\"'), message: 'not valid JSON' },
  { name: 'a number that JSON lacks', raw: Buffer.from('{"a":NaN}'), message: 'not valid JSON' },
  { name: 'a byte order mark', raw: Buffer.from('\ufeff{}'), message: 'not valid JSON' },
  { name: 'two values', raw: Buffer.from('{}{}'), message: 'not valid JSON' },
  { name: 'bytes that are no UTF-8', raw: Buffer.from([0x22, 0xff, 0x22]), message: 'not valid UTF-8' },
  {
    name: 'a surrogate in UTF-8',
    raw: Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
    message: 'not valid UTF-8',
  },
  {
    name: 'a lone surrogate by an escape',
    raw: Buffer.from('{"a":"x\\uD83d"}'),
    message: 'half a surrogate pair',
  },
  { name: 'a lone surrogate in a name', raw: Buffer.from('{"\\udc00":1}'), message: 'half a surrogate pair' },
  { name: 'the name __proto__', raw: Buffer.from('{"a":{"__proto__":{"b":1}}}'), message: 'not allowed' },
  {
    name: 'the name __proto__ by an escape',
    raw: Buffer.from('{"\\u005f_proto__":1}'),
    message: 'not allowed',
  },
])('a body is refused: $name', ({ raw, message }) => {
  expect(() => parseStrictJson(raw)).toThrow(message);
});

test('a whole pair of surrogates by escapes passes', () => {
  expect(parse('{"a":"\\ud83d\\ude00"}')).toEqual({ a: '😀' });
});

test('nesting passes to the limit and is refused beyond it, before it is parsed', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  expect(() => parse(nested(jsonDepthMax))).not.toThrow();
  expect(() => parse(nested(jsonDepthMax + 1))).toThrow('nested deeper than 64');
  expect(() => parse('{"a":'.repeat(1_000_000))).toThrow('nested deeper than 64');
});

test('names and values pass to their limits and are refused beyond them, before they are parsed', () => {
  const names = (count: number) => `[${Array.from({ length: count }, () => '{"a":1}').join()}]`;
  expect(parse(names(jsonNamesMax))).toHaveLength(jsonNamesMax);
  expect(() => parse(names(jsonNamesMax + 1))).toThrow(`more than ${jsonNamesMax} names`);
  expect(() => parse(`[1${',1'.repeat(jsonValuesMax)}`)).toThrow(`more than ${jsonValuesMax} values`);
});

test('brackets inside of strings do not nest', () => {
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
  ['values of what is no JSON', `${'['.repeat(10)}${'0,'.repeat(500_001)}`, 'more than 500000 values'],
])('more %s than a request needs are refused before anything is parsed', (_, text, message) => {
  expect(() => parse(text)).toThrow(message);
});

test('as many names and values as are taken are read', () => {
  expect(Object.keys(parse(object(50_000)) as object)).toHaveLength(50_000);
  expect(parse(list(500_000))).toHaveLength(499_999);
});
