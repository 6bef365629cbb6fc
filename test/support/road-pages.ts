/** What docs/a-request.md and docs/an-event.md say: their steps, the files they name, and the functions behind a file's name. */
import { readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export interface RoadPage {
  /** Numbers of the steps, as they stand there. */
  readonly steps: readonly number[];
  /** The functions of each step, as `file#function`. */
  readonly functions: readonly string[];
  /** All files that it names, in steps and next to them. */
  readonly files: readonly string[];
}

export function roadPage(path: string): RoadPage {
  const text = readFileSync(join(root, path), 'utf8');
  const links = [...text.matchAll(/\]\((\.\.\/[^)]+\.ts)\)((?:,?\s+`[^`]+`)*)/g)].map(
    ([, link = '', names = '']) => ({
      file: normalize(join('docs', link)),
      functions: [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
    }),
  );
  return {
    steps: [...text.matchAll(/^(\d+)\. /gm)].map(([, number]) => Number(number)),
    functions: links.flatMap(({ file, functions }) => functions.map((name) => `${file}#${name}`)),
    files: links.map(({ file }) => file),
  };
}
