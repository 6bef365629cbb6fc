import { expect, test } from 'vitest';
import { ToolInput } from './tool-input.ts';

test('a tool’s input is held within a bound, however it arrives', () => {
  const input = new ToolInput();
  input.add('{"a":"');
  const piece = 'a'.repeat(64 * 1024);
  expect(() => {
    for (let n = 0; n < 100; n++) input.add(piece);
  }).toThrow('too large');
});

test('an input with more names than one turn may read is invalid, but a long text is valid', () => {
  const many = new ToolInput();
  many.add(`{${Array.from({ length: 20_000 }, (_, n) => `"name-${n}":0`).join()}}`);
  expect(() => many.value(false)).toThrow('not a JSON object');
  const long = new ToolInput();
  long.add(`{"a":"${'a'.repeat(1024 * 1024)}"}`);
  expect(long.value(false)).toEqual({ a: 'a'.repeat(1024 * 1024) });
});
