import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeGauges, encodeGauges, type GaugeRecord, gaugeEntriesMax } from './gauges.ts';

const record: GaugeRecord = {
  ...{ v: 1, process: 'p', name: 'edge-1', n: 7, alone: 3, ended: [['q', 2]], silent: [] },
  entries: [{ subject: 'acme', window: 60_000, limit: 30, used: 2, claim: 5 }],
};

test('a record is read as it was written', () => {
  expect(decodeGauges(encodeGauges(record))).toEqual(record);
});

test('a record that is cut, has another form, or a member out of bounds is none', () => {
  const value = encodeGauges(record);
  for (let length = 0; length < value.length; length++)
    expect(decodeGauges(value.subarray(0, length))).toBeUndefined();
  const entry = ['acme', 0, 30, 2, 5];
  const faults: readonly object[] = [
    { v: 2 },
    { process: '' },
    { name: 'x'.repeat(201) },
    { n: -1 },
    { n: 1.5 },
    { alone: 'no' },
    { ended: {} },
    { ended: [['q']] },
    { silent: [['q', -1]] },
    { entries: null },
    { entries: Array.from({ length: gaugeEntriesMax + 1 }, () => entry) },
    { entries: [['acme', 0, 30, 2]] },
    { entries: [['acme', 0, 30, 2, 5, 6]] },
    { entries: [[7, 0, 30, 2, 5]] },
    ...[1, 2, 3, 4].map((index) => ({ entries: [entry.with(index, 2e15)] })).slice(1),
    { entries: [entry.with(4, -1)] },
    { entries: [entry.with(3, '2')] },
  ];
  const whole = { ...(JSON.parse(value.toString()) as object), entries: [entry] };
  expect(decodeGauges(Buffer.from(JSON.stringify(whole)))).toBeDefined();
  for (const fault of faults)
    expect(
      decodeGauges(Buffer.from(JSON.stringify({ ...whole, ...fault }))),
      JSON.stringify(fault),
    ).toBeUndefined();
});

test('no bytes make the reader throw', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void decodeGauges(bytes)));
  fc.assert(fc.property(fc.json(), (text) => void decodeGauges(Buffer.from(text))));
});
