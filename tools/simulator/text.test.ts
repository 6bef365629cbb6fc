/** Tests that the documented rule is enough to predict a simulated node's answer and token counts. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { contentText, cutAtStop, echo, pieces, promptTokens, textTokens, wordsAsked } from './text.ts';

test.each([
  { name: 'one short message', messages: [{ role: 'user', content: 'Say hi' }], tokens: 5 },
  { name: 'no text at all', messages: [{ role: 'assistant', content: null }], tokens: 3 },
  {
    name: 'bytes of all messages summed before they are divided',
    messages: [{ content: 'a' }, { content: 'b' }, { content: 'c' }],
    tokens: 10,
  },
  { name: 'bytes, not characters', messages: [{ content: '€€€€' }], tokens: 6 },
  {
    name: 'text parts only',
    messages: [
      { content: [{ type: 'text', text: 'abcd' }, { type: 'image_url' }, { type: 'text', text: 'e' }] },
    ],
    tokens: 5,
  },
  { name: 'something that is no message', messages: [7], tokens: 3 },
])('a prompt costs a quarter of its bytes plus 3 per message: $name', ({ messages, tokens }) => {
  expect(promptTokens(messages)).toBe(tokens);
});

test('plain text costs a quarter of its bytes, rounded up', () => {
  expect(['', 'a', 'abcd', 'abcde'].map(textTokens)).toEqual([0, 1, 1, 2]);
});

test('content of an unknown kind counts as no text', () => {
  expect([contentText(5), contentText({}), contentText([null, 'x'])]).toEqual(['', '', '']);
});

test('an echo repeats the words in a loop, one word per token', () => {
  expect(echo('hello  there', 5)).toEqual(['echo:', ' hello', ' there', ' echo:', ' hello']);
  expect(echo('hello there', 2, 1)).toEqual(['hello', ' there']);
  expect(echo('', 2)).toEqual(['echo:', ' echo:']);
});

test('the last message can request a length', () => {
  expect(wordsAsked('please say 500 words now', 16)).toBe(500);
  expect(wordsAsked('say some words', 16)).toBe(16);
});

test('machine text is cut into tokens of eight characters without loss', () => {
  expect(pieces('{"a":"bcd"}')).toEqual(['{"a":"bc', 'd"}']);
});

test('an answer ends before the earliest stop sequence, wherever tokens begin', () => {
  const property = fc.property(
    fc.array(fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom('a', 'b', ' ') }), {
      maxLength: 12,
    }),
    fc.array(fc.string({ maxLength: 3, unit: fc.constantFrom('a', 'b', ' ') }), { maxLength: 4 }),
    (tokens, stops) => {
      const text = tokens.join('');
      const at = stops.filter((stop) => stop !== '' && text.includes(stop)).map((stop) => text.indexOf(stop));
      const cut = cutAtStop(tokens, stops);
      expect(cut.tokens.join('')).toBe(at.length === 0 ? text : text.slice(0, Math.min(...at)));
      expect(cut.matched === null).toBe(at.length === 0);
      expect(cut.tokens.every((token) => token !== '')).toBe(true);
    },
  );
  fc.assert(property);
});
