// The documentation as a site, built by `npm run site`. Pages have the same addresses as in this folder.
import { readFileSync } from 'node:fs';

/** The navigation: the sections of docs/README.md, which lists every page. */
const sections = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  .split(/^## /m)
  .slice(1);
const sidebar = sections.map((section) => ({
  text: section.slice(0, section.indexOf('\n')),
  items: [...section.matchAll(/\[([^\]]+)\]\(([^).]+)\.md\)/g)].map(([, text, path]) => ({
    text: text[0].toUpperCase() + text.slice(1),
    link: `/${path}`,
  })),
}));

/** Comments are notes for the tests of a page's commands, which no reader needs. */
const withoutComments = (state) => {
  state.src = state.src.replaceAll(/<!--.*?-->\n?/gs, '');
};

/** Files of the repository outside of docs/ are named without a link. */
const withoutOutsideLinks = ({ tokens, env }) => {
  let isOutside = false;
  for (const token of tokens.flatMap(({ children }) => children ?? [])) {
    if (token.type === 'link_open') {
      const { protocol, pathname } = new URL(token.attrGet('href'), `file:///docs/${env.relativePath}`);
      isOutside = protocol === 'file:' && !pathname.startsWith('/docs/');
    }
    if (!isOutside || !/^link_(open|close)$/.test(token.type)) continue;
    // An anchor without an address would still look like a link.
    token.tag = 'span';
    token.attrs = [];
  }
};

/** Anchors of headings are those of GitHub, so that links lead to them in both places. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-');

export default {
  title: 'Headgate',
  rewrites: { 'README.md': 'index.md' },
  markdown: {
    // Pages contain placeholders such as <name>, but no HTML.
    html: false,
    anchor: { slugify },
    languages: [{ name: 'promql', scopeName: 'source.promql', patterns: [] }],
    config: (md) => {
      md.core.ruler.before('normalize', 'comments', withoutComments);
      md.core.ruler.push('outside-links', withoutOutsideLinks);
    },
  },
  themeConfig: { sidebar, search: { provider: 'local' }, outline: 'deep' },
};
