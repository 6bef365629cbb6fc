import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NodeFailure } from '../common/node-failure.ts';
import { CustomInput } from './custom-input.ts';

/** Returns the input and the deltas that a client reads if the text arrives in pieces. */
function readOf(
  text: string,
  cuts: readonly number[] = [],
): { read: string; deltas: string[]; isWhole: boolean } {
  const places = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
  const input = new CustomInput();
  const deltas = places.slice(1).map((to, at) => input.add(text.slice(places[at], to)));
  const { isWhole } = input;
  deltas.push(input.end());
  return { read: deltas.join(''), deltas, isWhole };
}

test('the input is the member that the model wrote, however the JSON was cut', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.boolean(),
      fc.array(fc.nat(), { maxLength: 12 }),
      (text, isAscii, cuts) => {
        const json = JSON.stringify({ input: text });
        const ascii = json.replace(
          /[^\0-~]/g,
          (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
        );
        const { read, deltas, isWhole } = readOf(isAscii ? ascii : json, cuts);
        expect(read).toBe(text);
        expect(isWhole).toBe(true);
        if (isAscii) for (const delta of deltas) expect(delta.isWellFormed?.() ?? true).toBe(true);
      },
    ),
  );
});

test('an escaped backslash before what looks like a surrogate is plain text, and may be cut after it', () => {
  const input = new CustomInput();
  expect([input.add(String.raw`{"input":"a\\ud83d`), input.add('b"}')]).toEqual([String.raw`a\ud83d`, 'b']);
});

test.each([
  ['a bare text', 'print(1)', 'print(1)'],
  ['a text with white space around it', ' { "input" : "a" } ', 'a'],
  ['an unescaped line end', '{"input":"a\nb\tc"}', 'a\nb\tc'],
  ['another member first', '{"x":1,"input":"a"}', 'a'],
  ['members after it', '{"input":"a","x":1}', 'a'],
  ['nothing', '', ''],
  ['an empty input', '{"input":""}', ''],
])('the input is read: %s', (_, given, expected) => {
  expect(readOf(given).read).toBe(expected);
  expect(readOf(given, [1, 2, 3, 5, 8]).read).toBe(expected);
});

test.each([
  ['cut within the text', '{"input":"ab'],
  ['cut before the text', '{"inp'],
  ['an invalid escape', '{"input":"a\\x"}'],
  ['a number', '{"input":1}'],
  ['another object', '{"code":"a"}'],
])('the input is invalid: %s', (_, given) => {
  expect(() => readOf(given)).toThrow(NodeFailure);
});

test('the input is held within a bound', () => {
  const input = new CustomInput();
  input.add('{"input":"');
  const piece = 'a'.repeat(64 * 1024);
  expect(() => {
    for (let n = 0; n < 65; n++) input.add(piece);
  }).toThrow('too large');
});
