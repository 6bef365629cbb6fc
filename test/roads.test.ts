/** docs/a-request.md and docs/an-event.md walk the two roads: what they list exists, hangs together, and is short. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';

const root = new URL('..', import.meta.url).pathname;

interface Step {
  readonly number: number;
  readonly files: readonly string[];
}

/** The numbered steps of a page; the files are those that a step links. */
function stepsOf(page: string): Step[] {
  const text = readFileSync(join(root, page), 'utf8');
  return text.split(/\n(?=\d+\. )/).flatMap((part) => {
    const number = /^(\d+)\. /.exec(part)?.[1];
    if (number === undefined) return [];
    const own = part.split(/\n\n/)[0] ?? '';
    const files = [...own.matchAll(/\]\((\.\.[^)]+\.ts)\)/g)].map(([, link = '']) =>
      normalize(join('docs', link)),
    );
    return [{ number: Number(number), files }];
  });
}

function importsOf(path: string): string[] {
  const text = readFileSync(join(root, path), 'utf8');
  return [...text.matchAll(/(?:from\s+|import\(\s*|new URL\(\s*)'(\.[^']+)'/g)].map(([, link = '']) =>
    normalize(join(dirname(path), link)),
  );
}

test.each([
  { page: 'docs/a-request.md', most: 25 },
  { page: 'docs/an-event.md', most: 25 },
])('$page: its steps are numbered without a gap, and at most $most', ({ page, most }) => {
  const numbers = stepsOf(page).map(({ number }) => number);
  expect(numbers.length).toBeGreaterThan(10);
  expect(numbers.length).toBeLessThanOrEqual(most);
  expect(numbers).toEqual(numbers.map((_, index) => index + 1));
});

test.each(['docs/a-request.md', 'docs/an-event.md'])(
  '%s: each file exists, is one step, and is connected to another one by an import',
  (page) => {
    const files = stepsOf(page).flatMap((step) => step.files);
    expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(files.filter((path, index) => files.indexOf(path) !== index)).toEqual([]);
    // An interface or a composition root may be between two of them.
    const near = (path: string): Set<string> => new Set([path, ...importsOf(path)]);
    const composed = [
      'shared/log/open-log.ts',
      'data-plane/snapshot/follow-log.ts',
      'data-plane/main.ts',
      'data-plane/surfaces/chat/chat.ts',
    ];
    const steps = [...files, ...composed].map((path) => ({ path, near: near(path) }));
    const isConnected = (path: string): boolean =>
      steps.some(
        ({ path: other, near: around }) => other !== path && (around.has(path) || near(path).has(other)),
      );
    expect(files.filter((path) => !isConnected(path))).toEqual([]);
  },
);
