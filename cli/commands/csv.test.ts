import fc from 'fast-check';
import { expect, test } from 'vitest';
import { csvLine, csvRecords } from './csv.ts';

/** Cells stand between bars, behind the number of their line. */
test.each([
  ['lines', 'a,b\nc,d\n', ['1|a|b', '2|c|d']],
  [
    'line ends of Windows, a mark of its editors, and no line end at the end',
    '\ufeffa,b\r\nc,d',
    ['1|a|b', '2|c|d'],
  ],
  ['empty lines', '\n\na\n\nb\n\n', ['3|a', '5|b']],
  ['empty cells', ',\n"",x', ['1||', '2||x']],
  ['cells in quotes', '"a,""b""","c\nd"\ne,f', ['1|a,"b"|c\nd', '3|e|f']],
  ['a quote that nothing closes', 'a,"b\nc', ['1|a|"b', '2|c']],
])('%s', (_what, text, records) => {
  expect(csvRecords(text).map(({ line, cells }) => [line, ...cells].join('|'))).toEqual(records);
});

test('what is written is read again', () => {
  const cell = fc.string({ unit: fc.constantFrom('a', ',', '"', '\n', '\r', ' ', 'é') });
  const row = fc.array(cell, { minLength: 2, maxLength: 4 });
  fc.assert(
    fc.property(fc.array(row), (rows) => {
      expect(csvRecords(rows.map(csvLine).join('')).map(({ cells }) => cells)).toEqual(rows);
    }),
  );
});
