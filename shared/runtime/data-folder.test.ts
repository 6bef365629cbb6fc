import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfFile } from '../../test/support/folders.ts';
import { lockDataFolder } from './data-folder.ts';

const root = folderOfFile('folder');
const mode = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

test('a folder that was mounted empty becomes private', () => {
  const path = join(root, 'mounted');
  mkdirSync(path);
  chmodSync(path, 0o755);
  lockDataFolder(path).release();
  expect(mode(path)).toBe('700');
  expect(mode(join(path, 'lock.db'))).toBe('600');
});

test('a folder that contains other files, or that everyone shares, keeps its permissions', () => {
  const shared = join(root, 'shared');
  mkdirSync(shared);
  chmodSync(shared, 0o1777);
  const other = join(root, 'other');
  mkdirSync(other);
  chmodSync(other, 0o755);
  writeFileSync(join(other, 'notes.txt'), '');
  for (const path of [shared, other]) lockDataFolder(path).release();
  expect([mode(shared), mode(other)]).toEqual(['1777', '755']);
});
