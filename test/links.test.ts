/**
 * Checks the links of the documentation: each must lead to an existing file and heading, and every page must be linked from
 * somewhere.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import MarkdownIt, { type Token } from 'markdown-it';
import { expect, test } from 'vitest';

const root = new URL('..', import.meta.url).pathname;
const pages = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => /^(?:docs\/.*|[A-Z]+\.md)$/.test(path) && existsSync(join(root, path)));
const markdown = new MarkdownIt();
const tokens = new Map(
  pages.map((page) => [page, markdown.parse(readFileSync(join(root, page), 'utf8'), {})] as const),
);

/** Returns the anchors of a page, as GitHub and the documentation site generate them. */
function anchorsOf(page: string): Set<string> {
  const list = tokens.get(page) ?? [];
  return new Set(
    list.flatMap(({ type }, at) => {
      if (type !== 'heading_open') return [];
      const text = (list[at + 1]?.children ?? []).map(({ content }) => content).join('');
      return [
        text
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{M}\p{N}_ -]/gu, '')
          .replaceAll(' ', '-'),
      ];
    }),
  );
}

interface Link {
  readonly to: string;
  readonly path: string;
  readonly anchor: string | undefined;
}

function linksOf(page: string): Link[] {
  const inner = (token: Token): Token[] => [token, ...(token.children ?? []).flatMap(inner)];
  return (tokens.get(page) ?? []).flatMap(inner).flatMap((token) => {
    const to = String(token.attrGet(token.type === 'image' ? 'src' : 'href') ?? '');
    if (to === '' || /^[a-z]+:/.test(to)) return [];
    const [path = '', anchor] = to.split('#');
    return [{ to, path: path === '' ? page : posix.join(posix.dirname(page), path), anchor }];
  });
}

test('every link leads to an existing file and heading', () => {
  const lost = pages.flatMap((page) =>
    linksOf(page)
      .filter(({ path, anchor }) => {
        if (!existsSync(join(root, path))) return true;
        return anchor !== undefined && path.endsWith('.md') && !anchorsOf(path).has(anchor);
      })
      .map(({ to }) => `${page}: ${to}`),
  );
  expect(lost).toEqual([]);
});

test('every page in docs/ is at most two clicks from the README', () => {
  const targets = (page: string): string[] => linksOf(page).map(({ path }) => path);
  const first = targets('README.md');
  const reached = new Set([...first, ...first.flatMap(targets)]);
  expect(pages.filter((page) => page.startsWith('docs/') && !reached.has(page))).toEqual([]);
});
