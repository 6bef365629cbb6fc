import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeGauges, encodeGauges, type GaugeEntry, type GaugeRecord, gaugeEntriesMax } from './gauges.ts';

const amounts = { limit: 30, used: 2, claim: 5, yields: false };
const entry: GaugeEntry = { subject: 'acme', window: 1_795_364_400_000, ...amounts };
const record: GaugeRecord = {
  ...{
    process: 'p',
    name: 'edge-1',
    n: 7,
    at: 1_795_364_400_123,
    from: 1_795_364_405_123,
    alone: 3,
    ended: [['q', 2]],
    silent: [],
  },
  entries: [
    { ...entry, yields: true },
    { ...entry, subject: 'visitors:all', window: 0, claim: 2 ** 32 - 1, yields: true },
    entry,
  ],
};

/** Encodes a record as a faulty writer might, without checking that it keeps the rules. */
function raw(head: object, entries: readonly GaugeEntry[] = record.entries): Buffer {
  const packed = encodeGauges({ ...record, entries });
  const packedHead = packed.readUInt16BE(1);
  const text = Buffer.from(JSON.stringify(head));
  const prefix = Buffer.from(packed.subarray(0, 5));
  prefix.writeUInt16BE(text.length, 1);
  return Buffer.concat([prefix, text, packed.subarray(5 + packedHead)]);
}

test('a record is read as it was written', () => {
  const read = decodeGauges(encodeGauges(record));
  expect(read).toMatchObject({ ...record, entries: expect.anything() });
  expect(read?.entries).toEqual(record.entries);
});

test('a record with the maximum of names can be read, whatever the ids and the name', () => {
  const most = (start: string): [string, number][] =>
    Array.from({ length: 200 }, (_, n) => [`${start}${n}`.padEnd(64, '"'), Number.MAX_SAFE_INTEGER]);
  const full = { ...record, name: '\u0001'.repeat(200), ended: most('e'), silent: most('s') };
  expect(decodeGauges(encodeGauges(full))).toMatchObject({ ended: full.ended, silent: full.silent });
});

test.each(['', 'a b', 'é', '\u0001', 'x'.repeat(65)])(
  'a record of a process with the id %j is refused',
  (id) => {
    expect(decodeGauges(encodeGauges({ ...record, process: id }))).toBeUndefined();
    expect(decodeGauges(encodeGauges({ ...record, ended: [[id, 1]] }))).toBeUndefined();
  },
);

test('a record names only some of the ended processes if there are too many', () => {
  const ended = Array.from({ length: 300 }, (_, n) => [`process-${n}`, n] as const);
  expect(decodeGauges(encodeGauges({ ...record, ended }))?.ended).toEqual(ended.slice(0, 200));
});

test('an oversized limit or a long name still gives a readable record', () => {
  const entries = [{ ...entry, limit: Number.MAX_SAFE_INTEGER }, entry];
  const read = decodeGauges(encodeGauges({ ...record, name: 'x'.repeat(300), entries }));
  expect(read?.name).toBe('x'.repeat(200));
  expect(read?.entries).toEqual([{ ...entry, limit: 2 ** 32 - 1 }, entry]);
});

test('every subject is read as written, even more of them than a reader remembers', () => {
  for (let from = 0; from < 40_000; from += gaugeEntriesMax) {
    const entries = Array.from({ length: gaugeEntriesMax }, (_, n) => ({
      ...entry,
      subject: `s-${from + n}`,
    }));
    expect(decodeGauges(encodeGauges({ ...record, entries }))?.entries).toEqual(entries);
  }
});

test('a record that is cut off, too long, malformed or out of bounds is refused', () => {
  const value = encodeGauges(record);
  for (let length = 0; length < value.length; length++)
    expect(decodeGauges(value.subarray(0, length))).toBeUndefined();
  expect(decodeGauges(Buffer.concat([value, Buffer.of(0)]))).toBeUndefined();
  const head = { process: 'p', name: 'edge-1', n: 7, at: 1 };
  expect(decodeGauges(raw(head))).toBeDefined();
  const faults: readonly object[] = [
    { process: '' },
    { name: 'x'.repeat(201) },
    { n: -1 },
    { n: 1.5 },
    { at: undefined },
    { alone: 'no' },
    { ended: {} },
    { ended: [['q']] },
    { silent: [['q', -1]] },
  ];
  for (const fault of faults)
    expect(decodeGauges(raw({ ...head, ...fault })), JSON.stringify(fault)).toBeUndefined();
  const entries: readonly (readonly GaugeEntry[])[] = [
    Array.from({ length: gaugeEntriesMax + 1 }, () => entry),
    [{ ...entry, subject: '' }],
    [{ ...entry, subject: 'x'.repeat(201) }],
    [{ ...entry, subject: 'two words' }],
    [{ ...entry, subject: 'caf\u00e9' }],
    [{ ...entry, subject: 'a\u007f' }],
  ];
  for (const fault of entries) expect(decodeGauges(raw(head, fault))).toBeUndefined();
  const other = encodeGauges(record);
  other[0] = 1;
  expect(decodeGauges(other)).toBeUndefined();
});

test('no bytes make the reader throw', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void decodeGauges(bytes)));
  const head = fc.json().map((text) => Buffer.from(text));
  fc.assert(
    fc.property(head, fc.uint8Array({ maxLength: 60 }), fc.nat(5), (text, rest, count) => {
      const read = decodeGauges(
        Buffer.concat([Buffer.of(2, text.length >> 8, text.length & 255, 0, count), text, rest]),
      );
      if (read !== undefined) read.entries;
    }),
  );
});
