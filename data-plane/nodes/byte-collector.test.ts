import { expect, test } from 'vitest';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { ByteCollector, isJsonType } from './byte-collector.ts';

test('a body is charged while it is held, even after it was passed on, and is given back once', () => {
  const budget = new BodyBudget(1000, 1000);
  budget.reserve(100);
  const collector = new ByteCollector(budget.of('one'), 500);
  expect(collector.add(Buffer.alloc(300, 'a'))).toBe(true);
  expect(collector.whole().toString()).toBe('a'.repeat(300));
  const charged = budget.usedBytes - 100;
  expect(charged).toBeGreaterThanOrEqual(300);
  const blocks = collector.takeChunks();
  expect(Buffer.concat(blocks).toString()).toBe('a'.repeat(300));
  expect(budget.usedBytes - 100).toBe(charged);
  collector.release();
  collector.release();
  expect(budget.usedBytes).toBe(100);
});

test('a body may have as many bytes as its bound, in any pieces, and is charged for no more', () => {
  for (const pieceBytes of [1, 7, 499, 500]) {
    const budget = new BodyBudget();
    const collector = new ByteCollector(budget, 500);
    for (let left = 500; left > 0; left -= pieceBytes)
      expect(collector.add(Buffer.alloc(Math.min(pieceBytes, left)))).toBe(true);
    expect([collector.length, budget.usedBytes]).toEqual([500, 500]);
    expect([collector.add(Buffer.alloc(1)), collector.isTooLarge, collector.length]).toEqual([
      false,
      true,
      500,
    ]);
    collector.release();
    expect(budget.usedBytes).toBe(0);
  }
});

test('a body that is too large is distinguished from one that does not fit in memory', () => {
  const large = new ByteCollector(new BodyBudget(), 500);
  expect(large.add(Buffer.alloc(501))).toBe(false);
  expect(large.isTooLarge).toBe(true);
  // Memory is charged in whole blocks, so try a size limit that lies inside a block.
  const grown = new ByteCollector(new BodyBudget(), 500);
  expect([grown.add(Buffer.alloc(400)), grown.add(Buffer.alloc(101))]).toEqual([true, false]);
  expect([grown.isTooLarge, grown.length]).toEqual([true, 400]);
  const budget = new BodyBudget(10, 10);
  const many = new ByteCollector(budget, 500);
  expect(many.add(Buffer.alloc(400))).toBe(false);
  expect(many.isTooLarge).toBe(false);
  many.release();
  expect(budget.usedBytes).toBe(0);
});

test.each([
  ['application/json', true],
  ['Application/JSON ; charset=utf-8', true],
  ['application/json;x', true],
  ['application/jsonl', false],
  ['application/json-seq', false],
  ['text/json', false],
  ['', false],
])('the type %j means JSON: %s', (type, isJson) => {
  expect(isJsonType(type)).toBe(isJson);
});
