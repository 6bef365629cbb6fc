/** Checks that settings are read in one place, so that tests can call every other function with settings of their own. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readSetting } from './settings.ts';

test.each([
  [{}, undefined],
  [{ X: '' }, undefined],
  [{ X: ' ' }, undefined],
  [{ X: ' a b ' }, 'a b'],
])('%j sets X to %j', (environment, expected) => {
  expect(readSetting('X', environment)).toBe(expected);
});

test('no other source file of the product reads process.env', () => {
  const root = join(import.meta.dirname, '../..');
  const rooms = [
    'schemas',
    'shared',
    'control-plane',
    'data-plane',
    'agent',
    'tools/dev',
    'tools/simulator',
    'cli',
  ];
  const files = rooms.flatMap((room) =>
    readdirSync(join(root, room), { recursive: true, encoding: 'utf8' }).map((file) => join(room, file)),
  );
  const readsEnvironment = /\bprocess\s*(\?\.|\.)\s*env\b|\bprocess\[|\benv\b[^;]*\}\s*=\s*process\b/;
  const readers = files.filter(
    (path) =>
      path.endsWith('.ts') &&
      !path.endsWith('.test.ts') &&
      readsEnvironment.test(readFileSync(join(root, path), 'utf8')),
  );
  expect(readers).toEqual(['shared/runtime/settings.ts']);
});
