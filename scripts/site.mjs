// npm run site [-- FOLDER [ROOT]]: the documentation as a static site (site/), from the Markdown files, with nothing from the
// network. The sections of docs/README.md are its navigation; a page has the address of its file. A link that leads nowhere
// fails.
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, posix, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import GithubSlugger from 'github-slugger';
import MarkdownIt from 'markdown-it';

const project = fileURLToPath(new URL('..', import.meta.url));
const [folder = join(project, 'site'), root = project] = process.argv.slice(2).map((path) => resolve(path));
const read = (path) => readFileSync(join(root, path), 'utf8');
const isMarkdown = (name) => name.endsWith('.md');

/** Every page, by its path in the repository. */
const pages = [
  ...readdirSync(root).filter(isMarkdown),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter(isMarkdown)
    .map((name) => posix.join('docs', name)),
].sort();

const markdown = new MarkdownIt({ html: true });
const withoutComments = (text) => text.replaceAll(/<!--.*?-->\n?/gs, '');
const escaped = markdown.utils.escapeHtml;

/** What a Markdown page is made of: its title, its headings with their anchors, and its links. */
function parsePage(path) {
  const slugger = new GithubSlugger();
  const tokens = markdown.parse(withoutComments(read(path)), {});
  const headings = [];
  const links = [];
  for (const [index, token] of tokens.entries()) {
    links.push(...linksOf(token));
    // An empty cell is the head of nothing.
    if (token.type === 'th_open' && tokens[index + 1].content === '')
      token.tag = tokens[index + 2].tag = 'td';
    if (token.type !== 'heading_open') continue;
    const text = textOf(tokens[index + 1]);
    headings.push({ level: Number(token.tag[1]), text, anchor: slugger.slug(text) });
    token.attrSet('id', headings.at(-1).anchor);
  }
  return { path, tokens, headings, links, title: headings[0]?.text ?? path };
}

function linksOf({ children }) {
  return (children ?? [])
    .filter(({ type }) => type === 'link_open' || type === 'image')
    .map((token) => ({ token, to: token.attrGet(token.type === 'image' ? 'src' : 'href') }));
}

function textOf(token) {
  return token.children.map(({ type, content }) => (type === 'softbreak' ? ' ' : content)).join('');
}

/** Where a link of a page leads: a path in the repository and an anchor; undefined for what is elsewhere. */
function targetOf(page, to) {
  if (/^[a-z]+:/.test(to)) return undefined;
  const [path, anchor] = to.split('#');
  return { path: path === '' ? page : posix.join(posix.dirname(page), path), anchor };
}

const addressOf = (path) => (path === 'README.md' ? 'index.html' : path.replace(/\.md$/, '.html'));
const between = (from, to) => posix.relative(posix.dirname(addressOf(from)), addressOf(to));

/** Links lead to pages; a file of the repository that is none is named without a link. */
function rewriteLinks(page) {
  for (const { token, to } of page.links) {
    const target = targetOf(page.path, to);
    if (token.type === 'image' || target === undefined) continue;
    if (pages.includes(target.path))
      token.attrSet('href', `${between(page.path, target.path)}${target.anchor ? `#${target.anchor}` : ''}`);
    else token.attrs = token.attrs?.filter(([name]) => name !== 'href') ?? null;
  }
}

/** A sentence for each link whose file or heading does not exist. */
function brokenLinks(parsed) {
  const anchors = new Map(
    parsed.map(({ path, headings }) => [path, new Set(headings.map(({ anchor }) => anchor))]),
  );
  return parsed.flatMap(({ path, links }) =>
    links.flatMap(({ to }) => {
      const target = targetOf(path, to);
      if (target === undefined) return [];
      if (!existsSync(join(root, target.path))) return [`${path}: ${to}: there is no such file`];
      const isKnown = target.anchor === undefined || anchors.get(target.path)?.has(target.anchor) !== false;
      return isKnown ? [] : [`${path}: ${to}: there is no such heading`];
    }),
  );
}

/** The sections of docs/README.md with their links. */
function navigationOf(index) {
  const sections = [];
  for (const [at, token] of index.tokens.entries()) {
    if (token.type === 'heading_open' && token.tag === 'h2')
      sections.push({ title: textOf(index.tokens[at + 1]), entries: [] });
    if (token.type !== 'inline') continue;
    for (const [inner, child] of (token.children ?? []).entries())
      if (child.type === 'link_open')
        sections.at(-1)?.entries.push({
          path: targetOf(index.path, child.attrGet('href')).path,
          title: token.children[inner + 1].content,
        });
  }
  return sections;
}

function navigationHtml(navigation, page) {
  const entry = ({ path, title }) =>
    `<li><a href="${between(page.path, path)}"${path === page.path ? ' aria-current="page"' : ''}>${escaped(title)}</a></li>`;
  return navigation
    .map(({ title, entries }) => `<h2>${escaped(title)}</h2><ul>${entries.map(entry).join('')}</ul>`)
    .join('');
}

/** The sections of a page, where it has more than one. */
function contentsHtml({ headings }) {
  const parts = headings.filter(({ level }) => level === 2);
  if (parts.length < 2) return '';
  const items = parts.map(({ text, anchor }) => `<li><a href="#${anchor}">${escaped(text)}</a></li>`);
  return `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${items.join('')}</ul></nav>`;
}

function pageHtml(page, navigation) {
  const up = posix.relative(posix.dirname(page.path), '.') || '.';
  const isFront = page.path === 'README.md';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(isFront ? 'Headgate' : `${page.title} · Headgate`)}</title>
<link rel="stylesheet" href="${up}/base.css">
<link rel="stylesheet" href="${up}/site.css">
<link rel="icon" href="data:,">
<script src="${up}/search-index.js" defer></script>
<script src="${up}/search.js" defer data-up="${up}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<a class="name" href="${between(page.path, 'README.md')}">Headgate</a>
<search><label>Search <input type="search" id="search" autocomplete="off"></label><ul id="found" aria-live="polite"></ul></search>
</header>
<div class="columns">
<details class="pages" open><summary>Pages</summary><nav aria-label="Pages">${navigationHtml(navigation, page)}</nav></details>
<main id="content">${markdown.renderer.render(page.tokens, markdown.options, {})}</main>
${contentsHtml(page)}
</div>
</body>
</html>
`;
}

/** Tables wider than the page scroll by themselves, by keyboard too. */
markdown.renderer.rules.table_open = () => '<div class="scroll" tabindex="0"><table>';
markdown.renderer.rules.table_close = () => '</table></div>';
const fence = markdown.renderer.rules.fence;
markdown.renderer.rules.fence = (...args) => fence(...args).replace('<pre>', '<pre tabindex="0">');

/** Writes the pages in place of what was in the folder. */
function writeSite(parsed) {
  const navigation = navigationOf(parsed.find(({ path }) => path === 'docs/README.md'));
  rmSync(folder, { recursive: true, force: true });
  for (const page of parsed) {
    rewriteLinks(page);
    const file = join(folder, addressOf(page.path));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, pageHtml(page, navigation));
  }
  const index = parsed.flatMap(({ path, title, headings }) =>
    headings.map(({ text, anchor }) => [title, text, `${addressOf(path)}#${anchor}`]),
  );
  writeFileSync(join(folder, 'search-index.js'), `window.searchIndex = ${JSON.stringify(index)};\n`);
  copyFileSync(join(project, 'console/styles/base.css'), join(folder, 'base.css'));
  for (const name of ['site.css', 'search.js'])
    copyFileSync(join(project, 'scripts/site', name), join(folder, name));
  cpSync(join(root, 'docs/pictures'), join(folder, 'docs/pictures'), { recursive: true });
}

const parsed = pages.map(parsePage);
const broken = brokenLinks(parsed);
if (broken.length > 0) {
  console.error(broken.join('\n'));
  process.exitCode = 1;
} else {
  writeSite(parsed);
  console.log(`${pages.length} pages: ${relative(process.cwd(), join(folder, 'index.html'))}`);
}
