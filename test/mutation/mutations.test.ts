/** Checks that mutations still match their source files, because a mutation whose text has moved tests nothing. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseSync } from 'vite';
import { expect, test } from 'vitest';
import { folderOfTest } from '../support/folders.ts';
import { goldenMutations, mutate, parseMutations, suiteMutations } from './mutations.ts';

const root = new URL('../../', import.meta.url);

test('each mutation’s text occurs exactly once in its source, the result parses, and its tests exist', () => {
  for (const mutation of [...suiteMutations(), ...goldenMutations()]) {
    const source = readFileSync(new URL(mutation.module, root), 'utf8');
    const mutated = mutate(source, mutation);
    expect(mutated, mutation.rule).not.toBe(source);
    const { errors } = parseSync(mutation.module, mutated);
    expect(errors, mutation.rule).toEqual([]);
    for (const file of mutation.tests) expect(existsSync(new URL(file, root)), file).toBe(true);
  }
});

test('each mutation of a suite has tests, and no two in one module share a name', () => {
  for (const { rule, tests } of suiteMutations()) expect(tests, rule).not.toEqual([]);
  for (const mutations of [suiteMutations(), goldenMutations()]) {
    const names = mutations.map(({ module, rule }) => `${module}: ${rule}`);
    expect(new Set(names).size).toBe(names.length);
  }
});

test('tests selected by a part of their names exist', async () => {
  const choices = suiteMutations().flatMap(({ rule, tests, only }) =>
    only === undefined ? [] : [{ rule, tests, only }],
  );
  const folder = folderOfTest('list');
  const list = join(folder, 'list.json');
  // Asks Vitest for the tests' names, because some names are made from tables. Vitest loads the files without running their
  // tests.
  const files = new Set(choices.flatMap(({ tests }) => tests));
  const words = ['node_modules/vitest/vitest.mjs', 'list', '--project', 'unit', `--json=${list}`, ...files];
  await promisify(execFile)(process.execPath, words, { cwd: fileURLToPath(root) });
  const found = JSON.parse(readFileSync(list, 'utf8')) as { readonly name: string; readonly file: string }[];
  const names = found.map(({ name, file }) => ({ file, name: name.replaceAll(' > ', ' ') }));
  const missing = choices.filter(
    ({ tests, only }) =>
      !names.some(({ name, file }) => name.includes(only) && tests.some((test) => file.endsWith(test))),
  );
  expect(missing).toEqual([]);
}, 120_000);

test('parsing keeps texts of several lines, trailing blanks, empty replacements and selected tests', () => {
  const table = `Of one module.

--- a.ts
by a.test.ts
by b.test.ts
@@ one @@ its test
-const a =
-  1;
+
@@ two
-a && \\
`;
  const of = { module: 'a.ts', tests: ['a.test.ts', 'b.test.ts'] };
  expect(parseMutations(table)).toEqual([
    { ...of, rule: 'one', only: 'its test', from: 'const a =\n  1;', to: '' },
    { ...of, rule: 'two', only: undefined, from: 'a && ', to: '' },
  ]);
  expect(() => parseMutations(`${table}a line`)).toThrow('a.ts: two: "a line" has no sign');
});

test('a mutation whose text is missing from its source, or not unique, is a fault', () => {
  const change = { rule: 'r', module: 'a.ts', to: '' };
  expect(() => mutate('tier, tier', { ...change, from: 'no such text' })).toThrow('0 times');
  expect(() => mutate('tier, tier', { ...change, from: 'tier' })).toThrow('2 times, not once');
});
