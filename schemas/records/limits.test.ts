import fc from 'fast-check';
import { expect, test } from 'vitest';
import { counterEntriesMax, readCounterRecord } from './limits.ts';

const entry = ['acme', '2026-11-01', 700, 7] as const;
const record = {
  ...{ v: 1, replica: 'replica-1', process: 'process-1', name: 'edge', at: 1 },
  entries: [entry, ['visitors:all', '2026-11-22', 5, 1], ['visitor:a1', '2026-11', 5, 1]],
};
const read = (value: object) => readCounterRecord(Buffer.from(JSON.stringify(value)));

test('a counters record is read as it was written, without its unknown parts', () => {
  expect(read(record)).toEqual(record);
  expect(
    read({
      ...record,
      later: 1,
      gaps: [
        ['i-1234', 3],
        ['i', 0],
      ],
    }),
  ).toEqual({
    ...record,
    gaps: [['i-1234', 3]],
  });
});

test('a counters record that is cut off, malformed or out of bounds is refused', () => {
  const value = Buffer.from(JSON.stringify(record));
  for (let length = 0; length < value.length; length++)
    expect(readCounterRecord(value.subarray(0, length))).toBeUndefined();
  const faults: readonly object[] = [
    { v: 2 },
    { replica: 'a' },
    { replica: 'x'.repeat(65) },
    { process: 'no spaces' },
    { name: '' },
    { name: 'two\nlines' },
    { at: 'now' },
    { entries: {} },
    { entries: Array.from({ length: counterEntriesMax + 1 }, () => entry) },
    ...[
      ['Acme', '2026-11-01', 1, 1],
      ['acme', '2026-13-01', 1, 1],
      ['acme', '2026', 1, 1],
      ['acme', '2026-11-01', -1, 1],
      ['acme', '2026-11-01', 1.5, 1],
      ['acme', '2026-11-01', 1, 1e12],
      ['acme', '2026-11-01', 1],
      ['acme', '2026-11-01', 1, 1, 1],
      [['acme'], '2026-11-01', 1, 1],
      'acme',
    ].map((each) => ({ entries: [each] })),
  ];
  for (const fault of faults) expect(read({ ...record, ...fault }), JSON.stringify(fault)).toBeUndefined();
});

test('no bytes make the counters reader throw', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void readCounterRecord(bytes)));
  fc.assert(fc.property(fc.json(), (text) => void readCounterRecord(Buffer.from(text))));
});
