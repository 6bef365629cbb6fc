/** Markdown of answers: what becomes what, that nothing leads anywhere but to the web, and that a growing text is read once. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Block, blockOf, type Split, splitBlocks, splitOn } from '../../console/play/markdown-blocks.ts';
import { inlineOf, webAddress } from '../../console/play/markdown-inline.ts';

const p = (content: string): Block => ({ kind: 'paragraph', text: content });
const blocksOf = (text: string): Block[] => splitBlocks(text).map(blockOf);

describe('blocks', () => {
  test.each<[string, string, Block[]]>([
    ['a paragraph of two lines', 'one\ntwo', [p('one\ntwo')]],
    ['two paragraphs', 'one\n\n\ntwo\n', [p('one'), p('two')]],
    ['a heading', '## Two ##', [{ kind: 'heading', level: 2, text: 'Two' }]],
    [
      'a heading without a blank line around it',
      'a\n# H\nb',
      [p('a'), { kind: 'heading', level: 1, text: 'H' }, p('b')],
    ],
    ['no heading without a blank', '#one', [p('#one')]],
    ['code with a language', '```ts\na\n\n  b\n```', [{ kind: 'code', language: 'ts', text: 'a\n\n  b' }]],
    ['code that is still written', '```\n# a', [{ kind: 'code', language: '', text: '# a' }]],
    ['code in code', '````\n```\n````', [{ kind: 'code', language: '', text: '```' }]],
    ['text right after code', '```\na\n```\nb', [{ kind: 'code', language: '', text: 'a' }, p('b')]],
    ['a list', '- a\n- b\n\n- c', [{ kind: 'list', first: undefined, items: ['a', 'b\n', 'c'] }]],
    ['a list that begins at three', '3. a\n4. b', [{ kind: 'list', first: 3, items: ['a', 'b'] }]],
    ['a list in a list', '- a\n  - b\n- c', [{ kind: 'list', first: undefined, items: ['a\n- b', 'c'] }]],
    ['code in a list', '1. a\n   ```\n   x\n   ```', [{ kind: 'list', first: 1, items: ['a\n```\nx\n```'] }]],
    ['a quotation', '> a\n> b', [{ kind: 'quote', text: 'a\nb' }]],
    ['a rule', '---', [{ kind: 'rule' }]],
    [
      'a table',
      '| a | b |\n|---|:-:|\n| 1 | 2 |',
      [{ kind: 'table', rows: ['ab', '12'].map((cells) => [...cells]) }],
    ],
    ['lines of another system', '# a\r\nb\r\n', [{ kind: 'heading', level: 1, text: 'a' }, p('b')]],
    ['HTML', '<b>a</b>', [p('<b>a</b>')]],
  ])('%s', (_name, text, blocks) => {
    expect(blocksOf(text)).toEqual(blocks);
  });
});

describe('within a line', () => {
  test.each<[string, unknown]>([
    ['a `b *c*` d', [text('a '), { kind: 'code', text: 'b *c*' }, text(' d')]],
    ['**a *b* c**', [{ kind: 'strong', text: 'a *b* c' }]],
    ['__a__ _b_', [{ kind: 'strong', text: 'a' }, text(' '), { kind: 'em', text: 'b' }]],
    ['2 * 3 * 4, snake_case_name', [text('2 * 3 * 4, snake_case_name')]],
    ['[a](https://example.com/b_(c))', [link('a', 'https://example.com/b_(c)')]],
    [
      'see https://example.com/a, or',
      [text('see '), link('https://example.com/a', 'https://example.com/a'), text(', or')],
    ],
    ['\\*a\\*', [text('*a*')]],
    ['[a](javascript:alert(1))', [text('[a](javascript:alert(1))')]],
    ['[a](data:text/html,b)', [text('[a](data:text/html,b)')]],
    ['[a](/b)', [text('[a](/b)')]],
    ['[a](https://bank.example@evil.example/)', [text('[a](https://bank.example@evil.example/)')]],
    ['![a](https://example.com/a.png)', [text('!'), link('a', 'https://example.com/a.png')]],
    ['<img src=x onerror=alert(1)>', [text('<img src=x onerror=alert(1)>')]],
  ])('%s', (source, found) => {
    expect(inlineOf(source)).toEqual(found);
  });
});

function text(content: string): object {
  return { kind: 'text', text: content };
}

function link(content: string, url: string): object {
  return { kind: 'link', text: content, url };
}

const someLines = '|- a|  - b|1. c|# d|```|```ts|~~~|> e|f|---|   g|****'.split('|');
const lines = fc.array(fc.oneof(fc.constantFrom(...someLines, '|a|'), fc.string({ maxLength: 12 })), {
  maxLength: 25,
});

test('no text is lost, and one that grows has the blocks of the whole', () => {
  fc.assert(
    fc.property(lines, fc.array(fc.nat(80), { maxLength: 8 }), (parts, cuts) => {
      const whole = parts.join('\n');
      const blocks = splitBlocks(whole);
      expect(blocks.join('')).toBe(whole);
      for (const block of blocks) blockOf(block);
      let split: Split = { text: '', blocks: [] };
      for (const cut of [...cuts.sort((a, b) => a - b), whole.length])
        split = splitOn(split, whole.slice(0, cut));
      expect(split.blocks).toEqual(blocks);
    }),
    { numRuns: 500 },
  );
});

test('every link leads to the web, whatever the text is', () => {
  const schemes = 'javascript: JAVASCRIPT: data: vbscript: file:// // https:// http:// blob:'.split(' ');
  const scheme = fc.constantFrom(...schemes);
  const address = fc.tuple(scheme, fc.webUrl(), fc.string({ maxLength: 20 })).map((all) => all.join(''));
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          address.map((one) => `[x](${one})`),
          address,
          fc.string(),
        ),
        { maxLength: 6 },
      ),
      (parts) => {
        for (const part of inlineOf(parts.join(' ')))
          if (part.kind === 'link') expect(part.url).toMatch(/^https?:\/\/[^@/?#]+(?:[/?#]|$)/);
      },
    ),
    { numRuns: 500 },
  );
  expect(webAddress('https://a@b.example')).toBeUndefined();
});

test('what was settled is not read again', () => {
  const settled = Array.from({ length: 400 }, (_, at) => `paragraph ${at}\n\n`).join('');
  const before = splitOn({ text: '', blocks: [] }, settled);
  const after = splitOn(before, `${settled}more`);
  expect(after.blocks.length).toBe(401);
  // The very same strings: nothing was cut again but the last ones.
  expect(after.blocks.slice(0, 398)).toEqual(before.blocks.slice(0, 398));
  expect(splitOn(after, after.text)).toBe(after);
});
