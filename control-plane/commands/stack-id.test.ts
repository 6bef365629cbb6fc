import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { stackIdSchema } from '../../schemas/names.ts';
import { mintStackId } from './stack-id.ts';

test('Resources, Stack: a minted id has the shape stk-<word>-<word>-<suffix> and fits a DNS label', () => {
  for (let run = 0; run < 500; run++) {
    const id = mintStackId(randomBytes);
    expect(id).toMatch(/^stk-[a-z]+-[a-z]+-[a-z0-9]{4}$/);
    expect(id.length).toBeLessThanOrEqual(63);
    expect(stackIdSchema.safeParse(id).success).toBe(true);
  }
});

test('every byte selects a word', () => {
  for (let byte = 0; byte < 256; byte++) {
    let draws = 0;
    const id = mintStackId((bytes) => new Uint8Array(bytes).fill(draws++ === 0 ? byte : 0));
    expect(stackIdSchema.safeParse(id).success).toBe(true);
    expect(id).not.toContain('undefined');
  }
});

test.each([
  ['stk-amber-otter-9k2f', true],
  ['stk-a-b-c', true],
  ['stk-amber-otter', false],
  ['stk-amber-otter-', false],
  ['stk-Amber-otter-9k2f', false],
  ['stk-amber-otter-9K2f', false],
  ['stk-amb3r-otter-9k2f', false],
  ['stk-amber-otter-9k2f-x', false],
  ['stk-amber-otter-9k2f\n', false],
  [`stk-${'a'.repeat(60)}-b-c`, false],
  ['', false],
])('Resources, Stack: whether %j is a stack id: %s', (text, accepted) => {
  expect(stackIdSchema.safeParse(text).success).toBe(accepted);
});
