import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeGauges } from './gauges.ts';
import { limitRecordBytesMax } from './limits.ts';
import { decodePlacements, encodePlacements, type PlacementReport, placementsMax } from './placements.ts';

const name = fc.oneof(fc.string({ minLength: 1, maxLength: 30 }), fc.constantFrom('constructor', 'n-0'));
const key = fc.maxSafeNat();
const placements: fc.Arbitrary<PlacementReport> = fc.record({
  process: name,
  loads: fc.uniqueArray(fc.tuple(name, fc.nat(1000)), { selector: ([node]) => node, maxLength: 20 }),
  placements: fc.uniqueArray(fc.tuple(name, key, name), {
    selector: (each) => each.join(' '),
    maxLength: 50,
  }),
});
const sorted = ({ process, loads, placements }: PlacementReport) => ({
  process,
  loads: [...loads].sort(),
  placements: placements.map(String).sort(),
});

test('a report survives writing and reading, and gauge readers ignore it', () => {
  fc.assert(
    fc.property(placements, (record) => {
      const value = encodePlacements(record);
      expect(sorted(decodePlacements(value) as PlacementReport)).toEqual(sorted(record));
      expect(decodeGauges(value)).toBeUndefined();
    }),
  );
});

test.each([
  ['no process', { loads: {}, placed: {} }],
  ['a long name', { process: 'x'.repeat(201) }],
  ['a negative load', { process: 'p', loads: ['n', -1] }],
  ['a load that is not a number', { process: 'p', loads: ['n', '1'] }],
  ['a node without a load', { process: 'p', loads: ['n', 1, 'm'] }],
  ['a key that is not a number', { process: 'p', placed: { acme: { n: '?' } } }],
  ['keys in another form', { process: 'p', placed: { acme: { n: [1] } } }],
  ['keys that cannot become text', { process: 'p', placed: { acme: { n: { toString: 1, valueOf: 1 } } } }],
  ['no organisation', { process: 'p', placed: { '': { n: '1' } } }],
])('a report with %s is refused as a whole', (_, record) => {
  expect(decodePlacements(Buffer.from(JSON.stringify(record)))).toBeUndefined();
});

test('arbitrary bytes cause no exception, and excess placements are dropped', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void decodePlacements(bytes)));
  fc.assert(fc.property(fc.json(), (text) => void decodePlacements(Buffer.from(text))));
  const keys = Array.from({ length: 3 * placementsMax }, (_, at) => at.toString(36)).join(' ');
  const raw = { process: 'p', placed: { acme: { n: keys }, birch: { n: keys } } };
  expect(decodePlacements(Buffer.from(JSON.stringify(raw)))?.placements).toHaveLength(placementsMax);
});

test('the largest report fits into one record, with all of its loads', () => {
  const names = Array.from({ length: 2000 }, (_, at) => String(at).padStart(64, 'x'));
  const value = encodePlacements({
    process: names[0] as string,
    loads: names.map((node) => [node, 1_000_000]),
    placements: names.map((each) => [each, Number.MAX_SAFE_INTEGER, each]),
  });
  expect(value.length).toBeLessThanOrEqual(limitRecordBytesMax);
  const report = decodePlacements(value);
  expect(report?.loads).toHaveLength(1000);
  expect(report?.placements.length).toBeGreaterThan(200);
});
