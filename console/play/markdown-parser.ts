/**
 * Parses the Markdown of an answer. HTML stays text, images become links, and links lead only to web pages or mail addresses.
 */
import MarkdownIt, { type Token } from 'markdown-it';

const parser = new MarkdownIt({ html: false, linkify: true, maxNesting: 20 });
parser.disable('image');
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
parser.validateLink = (target) => safeAddress(target) !== undefined;

/** Returns a link's URL if it is safe to follow. A URL with a user name is not safe, because it could hide the real host. */
function safeAddress(target: string): URL | undefined {
  if (!/^(?:https?:\/\/|mailto:)/i.test(target) || !URL.canParse(target)) return undefined;
  const url = new URL(target);
  return url.username === '' && url.password === '' ? url : undefined;
}

/** Returns the URL of a link token, or undefined if the link has none, as in `[text]()`. */
export function linkAddress(token: Token): URL | undefined {
  return safeAddress(String(token.attrGet('href')));
}

export function parseMarkdown(text: string): Token[] {
  return parser.parse(text, {});
}
