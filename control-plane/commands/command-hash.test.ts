import { expect, test } from 'vitest';
import { commandHash } from './command-hash.ts';

test('a command has the same hash however it is written, and other commands have other hashes', () => {
  const hash = commandHash('a', { x: 1, y: undefined }, { b: [1, { d: 1, c: 2 }], a: null });
  expect(commandHash('a', { x: 1 }, { a: null, b: [1, { c: 2, d: 1 }] })).toBe(hash);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  for (const other of [
    commandHash('b', { x: 1 }, { a: null, b: [1, { c: 2, d: 1 }] }),
    commandHash('a', { x: 2 }, { a: null, b: [1, { c: 2, d: 1 }] }),
    commandHash('a', { x: 1 }, { b: [1, { c: 2, d: 1 }] }),
    commandHash('a', { x: 1 }, { a: null, b: [{ c: 2, d: 1 }, 1] }),
    commandHash('a', { x: 1 }, { a: null, b: ['1', { c: 2, d: 1 }] }),
  ])
    expect(other).not.toBe(hash);
});
