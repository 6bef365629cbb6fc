import { expect, test } from 'vitest';
import { ToolInput } from './tool-input.ts';

test('the input of a tool is held within a bound, however it comes', () => {
  const input = new ToolInput();
  input.add('{"a":"');
  const piece = 'a'.repeat(64 * 1024);
  expect(() => {
    for (let n = 0; n < 100; n++) input.add(piece);
  }).toThrow('too large');
});

test('an input of more names than are read in one turn is no input, and a long text is', () => {
  const many = new ToolInput();
  many.add(`{${Array.from({ length: 20_000 }, (_, n) => `"name-${n}":0`).join()}}`);
  expect(() => many.value(false)).toThrow('not a JSON object');
  const long = new ToolInput();
  long.add(`{"a":"${'a'.repeat(1024 * 1024)}"}`);
  expect(long.value(false)).toEqual({ a: 'a'.repeat(1024 * 1024) });
});
