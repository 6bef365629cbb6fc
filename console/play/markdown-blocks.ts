/** Markdown as blocks: which lines belong together, found line by line, so that a growing answer changes its last blocks alone. */

export type Block =
  | { readonly kind: 'code'; readonly language: string; readonly text: string }
  | { readonly kind: 'heading'; readonly level: number; readonly text: string }
  | { readonly kind: 'list'; readonly first: number | undefined; readonly items: readonly string[] }
  | { readonly kind: 'quote'; readonly text: string }
  | { readonly kind: 'table'; readonly rows: readonly (readonly string[])[] }
  | { readonly kind: 'rule' }
  | { readonly kind: 'paragraph'; readonly text: string };

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const heading = /^ {0,3}(#{1,6})\s+(.*?)(?:\s#+)?\s*$/;
const rule = /^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
const item = /^( *)([-*+]|\d{1,9}[.)])( +)(.*)$/;
const quote = /^ {0,3}> ?/;
const divider = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)+\|? *$/;

type Kind = 'code' | 'closed' | 'heading' | 'rule' | 'list' | 'quote' | 'paragraph';

/** What the lines so far are part of. */
interface Place {
  readonly kind: Kind;
  /** Of code: what closes it. */
  readonly mark: string;
  readonly isAfterBlank: boolean;
}

function begun(line: string): Place {
  const [, mark = ''] = fence.exec(line) ?? [];
  if (mark !== '') return { kind: 'code', mark, isAfterBlank: false };
  const kind: Kind = heading.test(line)
    ? 'heading'
    : rule.test(line)
      ? 'rule'
      : item.test(line)
        ? 'list'
        : quote.test(line)
          ? 'quote'
          : 'paragraph';
  return { kind, mark, isAfterBlank: false };
}

/** Of code: a line of its mark alone, at least as long. */
function closes(mark: string, line: string): boolean {
  const end = line.trim();
  return end.length >= mark.length && end === mark.charAt(0).repeat(end.length);
}

/** The place after a line; undefined where the line begins another block. */
function continued(place: Place, line: string): Place | undefined {
  const { kind, mark, isAfterBlank } = place;
  if (kind === 'code') return closes(mark, line) ? { ...place, kind: 'closed' } : place;
  if (line.trim() === '') return { ...place, isAfterBlank: true };
  const next = begun(line).kind;
  const isMore = kind === 'list' && (next === 'list' || line.startsWith('  '));
  const isQuoteOn = kind === 'quote' && next === 'quote';
  const isText = next === 'paragraph' && !isAfterBlank && ['list', 'quote', 'paragraph'].includes(kind);
  return isMore || isQuoteOn || isText ? { ...place, isAfterBlank: false } : undefined;
}

/** The sources of the blocks, which together are the text. */
export function splitBlocks(text: string): string[] {
  const starts = [0];
  let place: Place | undefined;
  for (const { index, 0: whole } of text.matchAll(/[^\n]*\n|[^\n]+$/g)) {
    const line = whole.replace(/\r?\n$/, '');
    const next = place && continued(place, line);
    if (next === undefined && place !== undefined) starts.push(index);
    // Blank lines before everything belong to what comes first.
    place = next ?? (place === undefined && line.trim() === '' ? undefined : begun(line));
  }
  return starts.map((start, at) => text.slice(start, starts[at + 1])).filter((block) => block !== '');
}

export interface Split {
  readonly text: string;
  readonly blocks: readonly string[];
}

/** The last line may not be whole: more of it can move it from the last block to the one before. */
const openBlocks = 2;

/** The same as `splitBlocks`, without reading again what an earlier split of the beginning has settled. */
export function splitOn(before: Split, text: string): Split {
  if (before.text === text) return before;
  if (!text.startsWith(before.text)) return { text, blocks: splitBlocks(text) };
  const settled = before.blocks.slice(0, -openBlocks);
  const length = settled.reduce((sum, block) => sum + block.length, 0);
  return { text, blocks: [...settled, ...splitBlocks(text.slice(length))] };
}

/** What one source is. */
export function blockOf(source: string): Block {
  const text = source.replace(/\r/g, '').replace(/^(?:[^\S\n]*\n)+|\s+$/g, '');
  const lines = text.split('\n');
  const [first = ''] = lines;
  const { kind, mark } = begun(first);
  if (kind === 'code') return codeOf(lines, mark);
  if (kind === 'rule') return { kind };
  if (kind === 'list') return listOf(lines);
  if (kind === 'quote') return { kind, text: lines.map((line) => line.replace(quote, '')).join('\n') };
  const [, marks = '', title = ''] = heading.exec(first) ?? [];
  if (kind === 'heading') return { kind, level: marks.length, text: title };
  if (first.includes('|') && divider.test(lines[1] ?? ''))
    return { kind: 'table', rows: [first, ...lines.slice(2)].map(cellsOf) };
  return { kind: 'paragraph', text };
}

function codeOf(lines: readonly string[], mark: string): Block {
  const [, , language = ''] = fence.exec(lines[0] ?? '') ?? [];
  const isClosed = lines.length > 1 && closes(mark, lines.at(-1) ?? '');
  const body = lines.slice(1, isClosed ? -1 : undefined);
  return { kind: 'code', language: language.trim().split(/\s/)[0] ?? '', text: body.join('\n') };
}

/** Lines of an item lose the indentation of its text. */
function listOf(lines: readonly string[]): Block {
  const [, base = '', sign = ''] = item.exec(lines[0] ?? '') ?? [];
  const items: string[][] = [];
  let indentation = 0;
  for (const line of lines) {
    const [, before = '', mark = '', gap = '', text = ''] = item.exec(line) ?? [];
    if (mark !== '' && before.length < base.length + 2) {
      indentation = before.length + mark.length + gap.length;
      items.push([text]);
    } else items.at(-1)?.push(line.slice(Math.min(indentation, line.length - line.trimStart().length)));
  }
  const number = Number.parseInt(sign, 10);
  return {
    kind: 'list',
    first: Number.isNaN(number) ? undefined : number,
    items: items.map((of) => of.join('\n')),
  };
}

function cellsOf(line: string): string[] {
  return line
    .trim()
    .replace(/^\||\|$/g, '')
    .split('|')
    .map((cell) => cell.trim());
}
