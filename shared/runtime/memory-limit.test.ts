import { expect, test } from 'vitest';
import { memoryMax, withinMemory } from './memory-limit.ts';

const mib = 1024 ** 2;

test('budgets shrink with the container’s memory limit, and never grow', () => {
  expect(withinMemory(512 * mib, memoryMax(256 * mib))).toBe(32 * mib);
  expect(withinMemory(512 * mib, memoryMax(4096 * mib))).toBe(512 * mib);
  expect(withinMemory(512 * mib, memoryMax(65_536 * mib))).toBe(512 * mib);
});

test.each([0, 2 ** 63, 2 ** 64])('a system that reports %d has no limit', (constrained) => {
  expect(memoryMax(constrained)).toBeUndefined();
});
