/**
 * Plants faults in the product. Each line of `planted.diff` breaks one rule, and the simulation must find it. A fault is
 * planted in a copy of the built code, because a running process may have loaded the original.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Mutation, mutate, parseMutations } from '../mutation/mutations.ts';

/** Root of the project. The built file is one folder deeper than the source. */
const root = join(import.meta.dirname, import.meta.filename.endsWith('.ts') ? '../..' : '../../..');

export function plantedFaults(): readonly Mutation[] {
  return parseMutations(readFileSync(join(root, 'test/simulation/planted.diff'), 'utf8'));
}

/**
 * Copies the built code to a new folder in `parent` and breaks one rule in the copy. Returns the path of the copied program.
 */
export function plant(name: string, parent: string): string {
  const fault = plantedFaults().find(({ rule }) => rule === name);
  if (fault === undefined) throw new Error(`there is no planted fault of this name: ${name}`);
  const folder = mkdtempSync(join(parent, 'planted-'));
  mkdirSync(join(folder, 'dist'));
  cpSync(join(root, 'dist'), join(folder, 'dist'), {
    recursive: true,
    filter: (path) => !/\.map$|\/console$|\/tools\/bench$/.test(path),
  });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  const built = join(folder, 'dist', fault.module.replace(/\.ts$/, '.js'));
  writeFileSync(built, mutate(readFileSync(built, 'utf8'), fault));
  return join(folder, 'dist/test/simulation/main.js');
}
