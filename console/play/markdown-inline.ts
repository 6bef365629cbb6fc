/** What stands within a line of Markdown: code, bold, italics and links; anything else is the text that it is. */

export type Inline =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'strong'; readonly text: string }
  | { readonly kind: 'em'; readonly text: string }
  | { readonly kind: 'link'; readonly text: string; readonly url: string };

/**
 * Every repetition is of signs that its end does not contain, and bounded, so that no text takes long to read. In order: code,
 * bold, italics, a link with a text, an address, and a sign that stands for itself.
 */
const pattern = new RegExp(
  [
    '`(?<code>[^`\\n]{1,1000})`',
    '\\*\\*(?<strong>[^\\s*](?:[^*]|\\*(?!\\*)){0,1000})\\*\\*',
    '(?<!\\w)__(?<strong2>[^\\s_](?:[^_]|_(?!_)){0,1000})__(?!\\w)',
    '\\*(?<em>[^\\s*][^*\\n]{0,1000})\\*',
    '(?<!\\w)_(?<em2>[^\\s_][^_\\n]{0,1000})_(?!\\w)',
    '\\[(?<label>[^\\[\\]\\n]{1,300})\\]\\((?<target>(?:[^()\\s]|\\([^()\\s]{0,200}\\)){1,1000})\\)',
    '(?<address>https?:\\/\\/[^\\s<>()\\[\\]"\'`*]{1,1000})',
    '\\\\(?<sign>[\\\\`*_#\\[\\]()>+.!|-])',
  ].join('|'),
  'g',
);
/** A longer paragraph is shown as it came. */
const lengthMax = 20_000;

/** An address that a link may lead to: of the web alone, and without a name and a password that would hide where it leads. */
export function webAddress(text: string): URL | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && url.username === '' && url.password === '' ? url : undefined;
}

export function inlineOf(text: string): Inline[] {
  if (text.length > lengthMax) return [{ kind: 'text', text }];
  const found: Inline[] = [];
  let plain = '';
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    plain += text.slice(end, match.index);
    end = match.index + match[0].length;
    const [part, rest] = partOf(match);
    if (part === undefined) plain += rest;
    else {
      if (plain !== '') found.push({ kind: 'text', text: plain });
      found.push(part);
      plain = rest;
    }
  }
  plain += text.slice(end);
  return plain === '' ? found : [...found, { kind: 'text', text: plain }];
}

/** What a match is, and the text after it; undefined where it is text. */
function partOf([whole, ...rest]: RegExpMatchArray): readonly [Inline | undefined, string] {
  const [code, strong, strong2, em, em2, label, target = '', address, sign] = rest;
  if (code !== undefined) return [{ kind: 'code', text: code }, ''];
  const bold = strong ?? strong2;
  if (bold !== undefined) return [{ kind: 'strong', text: bold }, ''];
  const italic = em ?? em2;
  if (italic !== undefined) return [{ kind: 'em', text: italic }, ''];
  if (sign !== undefined) return [undefined, sign];
  // A stop after an address belongs to the sentence.
  const text = label ?? address?.replace(/[.,;:!?]+$/, '') ?? '';
  const url = webAddress(label === undefined ? text : target);
  if (url === undefined) return [undefined, whole];
  return [{ kind: 'link', text, url: url.href }, label === undefined ? whole.slice(text.length) : ''];
}
