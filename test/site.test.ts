/** The documentation: every link leads somewhere, every page is two steps from the README, and the site is made of all of it. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { beforeAll, expect, test } from 'vitest';

const folders: string[] = [];
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'headgate-site-'));
  folders.push(path);
  return path;
}

function makeSite(to: string, from: string) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/site.mjs', to, from], {
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

let site: string;
beforeAll(() => {
  site = folder();
  expect(makeSite(site, '.')).toMatchObject({ status: 0, stderr: '' });
  return () => {
    for (const path of folders) rmSync(path, { recursive: true, force: true });
  };
});

/** All files of a folder with this ending, by their path in it. */
function filesIn(root: string, ending: string): string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith(ending));
}

test('the site has a page for each page of the repository', () => {
  const pages = [
    'README.md',
    'docs/README.md',
    'docs/operate.md',
    'docs/errors/HG1001.md',
    'ARCHITECTURE.md',
  ];
  for (const page of pages) {
    const path = page === 'README.md' ? 'index.html' : page.replace(/md$/, 'html');
    expect(existsSync(join(site, path)), path).toBe(true);
  }
  expect(filesIn(site, '.html')).toHaveLength(
    filesIn('docs', '.md').length + readdirSync('.').filter((name) => name.endsWith('.md')).length,
  );
});

test('every address in the site is a file of it, with the heading that it names', () => {
  const ids = new Map<string, Set<string>>();
  const pages = filesIn(site, '.html');
  for (const page of pages) {
    const html = readFileSync(join(site, page), 'utf8');
    ids.set(page, new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => id)));
  }
  const lost = pages.flatMap((page) => {
    const html = readFileSync(join(site, page), 'utf8').replace(/<code[^>]*>.*?<\/code>/gs, '');
    return [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].flatMap(([, address = '']) => {
      if (/^(?:https?|data|mailto):/.test(address)) return [];
      const [path = '', id] = address.split('#');
      const target = path === '' ? page : posix.join(posix.dirname(page), path);
      const isThere = existsSync(join(site, target)) && (id === undefined || ids.get(target)?.has(id));
      return isThere ? [] : [`${page}: ${address}`];
    });
  });
  expect(lost).toEqual([]);
});

test('a link to a file or a heading that does not exist makes no site, and is named', () => {
  const copy = folder();
  for (const name of ['docs', 'README.md']) cpSync(name, join(copy, name), { recursive: true });
  writeFileSync(join(copy, 'docs/api.md'), '# API\n\n[a](nowhere.md) [b](kafka.md#nothing) [c](kafka.md)\n');
  const target = folder();
  const { status, stderr } = makeSite(target, copy);
  expect(status).toBe(1);
  expect(stderr).toContain('docs/api.md: nowhere.md: there is no such file');
  expect(stderr).toContain('docs/api.md: kafka.md#nothing: there is no such heading');
  expect(stderr).not.toMatch(/docs\/api\.md: kafka\.md:/);
  expect(readdirSync(target)).toEqual([]);
});

test('every page of docs/ is at most two steps from the README', () => {
  const linksOf = (page: string): string[] =>
    [...readFileSync(page, 'utf8').matchAll(/\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)/g)].map(([, to = '']) =>
      posix.join(posix.dirname(page), to),
    );
  const first = linksOf('README.md');
  const reached = new Set([...first, ...first.flatMap(linksOf)]);
  const pages = filesIn('docs', '.md').map((name) => posix.join('docs', name));
  expect(pages.filter((page) => !reached.has(page))).toEqual([]);
});

test('the site asks for nothing from elsewhere', () => {
  for (const name of filesIn(site, '.html')) {
    const html = readFileSync(join(site, name), 'utf8');
    expect(
      html.match(/<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?\/\/[^"]*"/g),
      name,
    ).toBeNull();
  }
});
