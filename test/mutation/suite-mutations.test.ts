/** Mutations follow their sources: a text that has moved would test nothing. */
import { existsSync, readFileSync } from 'node:fs';
import { parseSync } from 'vite';
import { expect, test } from 'vitest';
import { suiteMutations } from './suite-mutations.ts';
import { mutate } from './suite-runner.ts';

const root = new URL('../../', import.meta.url);

test('the text that each mutation replaces stands in its source exactly once, the result parses, and its tests exist', () => {
  for (const mutation of suiteMutations) {
    const source = readFileSync(new URL(mutation.module, root), 'utf8');
    const mutated = mutate(source, mutation);
    expect(mutated, mutation.rule).not.toBe(source);
    const { errors } = parseSync(mutation.module, mutated);
    expect(errors, mutation.rule).toEqual([]);
    for (const file of mutation.tests) expect(existsSync(new URL(file, root)), file).toBe(true);
  }
});

test('no two mutations of a module have one name', () => {
  const names = suiteMutations.map(({ module, rule }) => `${module}: ${rule}`);
  expect(new Set(names).size).toBe(names.length);
});
