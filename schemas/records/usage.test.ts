import fc from 'fast-check';
import { expect, test } from 'vitest';
import { usageRow } from '../../test/support/usage-rows.ts';
import { readUsageRecord, readUsageRow, usagePartition, usageRowSchema } from './usage.ts';

const row = { v: 1, incarnation: '0f8fad5b-d9cb-469f-a165-70867728950e', n: 1, ...usageRow() };
const { organisation: _, period: __, ...ownerless } = row;

test.each<[claim: string, value: object, written: boolean, read: boolean]>([
  ['an organisation’s row', row, true, true],
  ['a pinned, estimated row', { ...row, draw: 'stack', stack: 'stk-a-b-c', estimated: true }, true, true],
  ['a visitor’s row', { ...ownerless, organisation: null, period: null, visitor: 'v1' }, true, true],
  ['a row with an unknown field', { ...row, colour: 'red' }, false, true],
  [
    'a visitor’s row outside the pool',
    { ...ownerless, organisation: null, period: null, visitor: 'v1', draw: 'own' },
    false,
    false,
  ],
  ['a row without an owner', { ...ownerless, organisation: null, period: null }, false, false],
  ['a row with two owners', { ...row, visitor: 'v1' }, false, false],
  ['an organisation’s row without a period', { ...row, period: null }, false, false],
  ['a row with a fractional token count', { ...row, promptTokens: 0.5 }, false, false],
  ['a row with a negative count', { ...row, completionTokens: -1 }, false, false],
  ['a row with more tokens than one request can have', { ...row, promptTokens: 1e9 + 1 }, false, false],
  ['a row numbered 0', { ...row, n: 0 }, false, false],
  ['a row without an incarnation', { ...row, incarnation: 'x' }, false, false],
])('whether %s can be written and read', (_claim, value, written, read) => {
  expect(usageRowSchema.safeParse(value).success).toBe(written);
  expect(readUsageRow(value) !== undefined).toBe(read);
});

test('a row of a later version keeps its number, so that later rows are not held up', () => {
  expect(readUsageRow({ v: 2, incarnation: row.incarnation, n: 7, other: [] })).toEqual({
    incarnation: row.incarnation,
    n: 7,
    text: expect.stringContaining('"other":[]'),
  });
});

test('a record gives its rows in order and counts its invalid ones', () => {
  const record = readUsageRecord(
    Buffer.from(JSON.stringify([row, 7, null, { ...row, n: 2 }, { ...row, n: 'x' }])),
  );
  expect(record.rows.map(({ n }) => n)).toEqual([1, 2]);
  expect(record.junk).toBe(3);
});

test('no bytes make the reader throw', () => {
  const deep = `${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`;
  expect(readUsageRecord(Buffer.from(deep)).rows).toEqual([]);
  const inRow = JSON.stringify([row]).replace(
    '"v":1',
    `"v":2,"deep":${'['.repeat(50_000)}${']'.repeat(50_000)}`,
  );
  expect(readUsageRecord(Buffer.from(inRow))).toEqual({ rows: [], junk: 1 });
  fc.assert(fc.property(fc.uint8Array(), (bytes) => readUsageRecord(bytes).rows.length === 0));
  fc.assert(
    fc.property(fc.json(), (text) => {
      readUsageRecord(Buffer.from(text));
      readUsageRow({ ...row, ...(JSON.parse(text) ?? {}) });
      return true;
    }),
  );
});

test('an incarnation has one partition, and incarnations are spread over all', () => {
  const seen = new Set<number>();
  for (let first = 0; first < 100; first++)
    seen.add(usagePartition(`${first.toString(16).padStart(8, '0')}-d9cb-469f-a165-70867728950e`, 12));
  expect([...seen].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});
