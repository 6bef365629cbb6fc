/**
 * Tests decoding batches that anyone may have written. Whether a batch is readable must depend on its bytes alone, and its
 * header must limit the work.
 */
import { expect, test } from 'vitest';
import { batch, codecs, packed, record } from '../../../test/support/record-batches.ts';
import { batchRecordsMax, parseBatches, signatureHeader } from './record-batches.ts';

const good = (firstOffset: number, ...values: string[]) => {
  const records = values.map((value, index) => record(index, Buffer.from(value)));
  return batch({ firstOffset, count: values.length, content: Buffer.concat(records) });
};
const read = (...batches: Buffer[]) =>
  [...parseBatches(Buffer.concat(batches))].map(({ unreadable, nextOffset, records }) => ({
    ...(unreadable && { unreadable }),
    nextOffset,
    records: records.map(({ offset, value }) => `${offset} ${value}`),
  }));
const small = record(0, Buffer.from('x'));
const many = (count: number) =>
  Buffer.concat(Array.from({ length: count }, (_, index) => record(index, Buffer.alloc(0))));

test.each([
  ...(['gzip', 'snappy', 'lz4', 'zstd'] as const).map(
    (codec) => ['compressed', { attributes: codecs[codec], content: packed(codec, small) }] as const,
  ),
  ['compressed', { attributes: 7, content: small }],
  ['compressed', { attributes: 1, count: 600_000, content: small }],
  ['old_format', { magic: 1, content: small }],
  ['old_format', { magic: 0, content: small }],
  ['too_large', { content: record(0, Buffer.alloc(1_048_588)) }],
  ['too_many_records', { count: batchRecordsMax + 1, content: many(batchRecordsMax + 1) }],
  ['malformed', { count: 2, content: small }],
  ['malformed', { count: 0, lastDelta: 0, content: small }],
  ['malformed', { count: -5, lastDelta: -5, content: small }],
  ['malformed', { count: 1, lastDelta: 2_147_483_647, content: small }],
  ['malformed', { content: record(2_147_483_000, Buffer.from('far ahead')) }],
  ['malformed', { content: small.subarray(0, -1) }],
  ['malformed', { content: Buffer.alloc(40, 0xff) }],
  ['malformed', { content: Buffer.alloc(0) }],
] as const)('%s: the batch is skipped, and its neighbours are read (%#)', (unreadable, parts) => {
  const poison = batch({ firstOffset: 2, ...parts });
  const [first, skipped, last] = read(good(0, 'a', 'b'), poison, good(9, 'c'));
  expect(first).toEqual({ nextOffset: 2, records: ['0 a', '1 b'] });
  expect(skipped).toMatchObject({ unreadable });
  // A skipped batch is replaced with one record that no reader accepts, at the batch's last offset.
  expect(skipped?.records).toEqual([`${(skipped?.nextOffset ?? 0) - 1} `]);
  expect(skipped?.nextOffset).toBeGreaterThan(2);
  expect(last).toEqual({ nextOffset: 10, records: ['9 c'] });
});

test('the largest batches and tombstones are read, and transaction markers give no record', () => {
  const [bound] = read(batch({ count: batchRecordsMax, content: many(batchRecordsMax) }));
  expect(bound?.records).toHaveLength(batchRecordsMax);
  expect(read(batch({ content: record(0, null) }))).toEqual([{ nextOffset: 1, records: ['0 '] }]);
  const transactional = 0x10;
  const marker = batch({ firstOffset: 1, attributes: transactional | 0x20, content: small });
  expect(read(batch({ attributes: transactional, content: small }), marker)).toEqual([
    { nextOffset: 1, records: ['0 x'] },
    { nextOffset: 2, records: [] },
  ]);
});

test('a signature counts only if there is exactly one', () => {
  const signatureOf = (...headers: [string, Buffer][]) =>
    [...parseBatches(batch({ content: record(0, Buffer.from('x'), headers) }))][0]?.records[0]?.signature;
  const own: [string, Buffer] = [signatureHeader, Buffer.from('signed')];
  expect(signatureOf(['other', Buffer.from('y')], own)).toEqual(Buffer.from('signed'));
  expect(signatureOf()).toBeNull();
  expect(signatureOf(own, own)).toBeNull();
});

test('the batches before one that is cut off anywhere are read', () => {
  const whole = good(0, 'a');
  const bytes = Buffer.concat([whole, good(1, 'b')]);
  for (let length = whole.length; length < bytes.length; length++)
    expect(read(bytes.subarray(0, length))).toEqual([{ nextOffset: 1, records: ['0 a'] }]);
});

test('changing any byte neither stops a reader nor moves it back', () => {
  const bytes = good(5, 'first', 'second', 'third');
  for (let at = 12; at < bytes.length; at++)
    for (const change of [0xff, 0x80, 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ change;
      for (const { nextOffset, records } of parseBatches(changed)) {
        expect(nextOffset).toBeGreaterThan(5);
        for (const { offset } of records) expect(offset < nextOffset && offset >= 5).toBe(true);
      }
    }
});
