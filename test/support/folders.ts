import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

function made(name: string, atEnd: (remove: () => void) => void): string {
  const folder = mkdtempSync(join(tmpdir(), `headgate-${name}-`));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Creates a folder that is removed after all tests of the file. */
export const folderOfFile = (name: string): string => made(name, afterAll);

/** Creates a folder that is removed after the current test and its hooks. */
export const folderOfTest = (name: string): string => made(name, onTestFinished);
