import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

function made(name: string, atEnd: (remove: () => void) => void): string {
  const folder = mkdtempSync(join(tmpdir(), `headgate-${name}-`));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A new folder, which is removed once all tests of the file are over. */
export const folderOfFile = (name: string): string => made(name, afterAll);

/** A new folder, which is removed behind the hooks of the test that it is made for. */
export const folderOfTest = (name: string): string => made(name, onTestFinished);
