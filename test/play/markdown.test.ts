/**
 * Tests Markdown in answers: whatever a model writes, it must not add HTML or load anything, and may link only to web or mail
 * addresses.
 */
import fc from 'fast-check';
import type { Token } from 'markdown-it';
import { expect, test } from 'vitest';
import { linkAddress, parseMarkdown } from '../../console/play/markdown-parser.ts';

function flatten(tokens: readonly Token[]): Token[] {
  return tokens.flatMap((token) => [token, ...flatten(token.children ?? [])]);
}

function links(text: string): string[] {
  return flatten(parseMarkdown(text))
    .filter(({ type }) => type === 'link_open')
    .flatMap((token) => linkAddress(token)?.href ?? []);
}

test.each<[string, string[]]>([
  ['[a](https://example.com/b_(c))', ['https://example.com/b_(c)']],
  ['see https://example.com/a, or mail', ['https://example.com/a']],
  ['[a](mailto:someone@example.com)', ['mailto:someone@example.com']],
  ['![a](https://example.com/a.png)', ['https://example.com/a.png']],
  ['[a](javascript:alert(1))', []],
  ['[a](JaVaScRiPt&colon;alert(1))', []],
  ['[a](data:text/html,b)', []],
  ['[a]()', []],
  ['[a](/b)', []],
  ['[a](//evil.example)', []],
  ['[a](https://bank.example@evil.example/)', ['https://bank.example/']],
  ['<https://bank.example@evil.example/>', ['https://bank.example/']],
  ['https://bank.example@evil.example/', ['https://bank.example/']],
  ['<a href="https://example.com">a</a>', ['https://example.com/']],
  ['example.com and a@example.com', []],
])('%s has the links %j', (text, found) => {
  expect(links(text)).toEqual(found);
});

test('no model text becomes HTML or an image, and no link leads elsewhere', () => {
  const pieces = fc.oneof(
    fc.constantFrom(
      ...'<b> <img src=x onerror=alert(1)> ![a]( [a]( javascript: data: https:// http:// //'.split(' '),
    ),
    fc.constantFrom('\n', '\n\n', '- ', '> ', '```', '`', '**', ')', '[a]: ', '|', '&#x6a;', '@', '\\'),
    fc.webUrl(),
    fc.string({ maxLength: 12 }),
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 20 }), (parts) => {
      const text = parts.join('');
      for (const { type } of flatten(parseMarkdown(text))) expect(type).not.toMatch(/html|image/);
      for (const href of links(text)) expect(href).toMatch(/^(?:https?:\/\/[^@/?#]+(?:[/?#]|$)|mailto:)/i);
    }),
    { numRuns: 200 },
  );
});
