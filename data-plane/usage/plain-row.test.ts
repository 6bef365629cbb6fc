import fc from 'fast-check';
import { expect, test } from 'vitest';
import { usageRowSchema } from '../../schemas/records/usage.ts';
import { runs } from '../../test/support/budget.ts';
import { usageRow } from '../../test/support/usage-rows.ts';
import { entriesOfPlainRow } from './plain-row.ts';
import { entriesOf } from './worker-messages.ts';

const envelope = { v: 1, incarnation: '6f2f6a4e-3a0f-4c53-9a64-6d0b1f1f0001', n: 1 };
const usual = usageRow();

test('the meter’s rows for organisations are recognised, and others are not', () => {
  const texts = [
    usual,
    usageRow({ draw: 'stack', stack: 'stk-calm-river-7x' }),
    usageRow({ key: 'k-1', ttftMs: 0, durationMs: 12, estimated: true }),
    usageRow({ organisation: null, visitor: 'v-1', period: null }),
    usageRow({ admittedMs: 1 }),
  ].map((row) => JSON.stringify(row));
  expect(texts.map((text) => entriesOfPlainRow(text))).toEqual([
    [['acme', '2026-11-01', 7, 1]],
    [],
    [['acme', '2026-11-01', 7, 1]],
    undefined,
    undefined,
  ]);
});

function of(usualValue: unknown, ...others: readonly unknown[]): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant(usualValue) },
    { weight: 3, arbitrary: fc.constantFrom(...others) },
    { weight: 1, arbitrary: fc.oneof(fc.string(), fc.integer(), fc.constantFrom(null, true, -1, 0.5, {})) },
  );
}
const days = [
  '2026-02-29',
  '2028-02-29',
  '2026-04-31',
  '2026-12-31',
  '2026-13-01',
  '2026-01-00',
  '1999-01-01',
];
const numbers = [0, 1_000_000_000, 999_999_999, 1e21];
const long = (character: string) => [63, 64, 65, 100, 101, 200, 201].map((count) => character.repeat(count));
const row = fc.record(
  {
    at: of(
      usual.at,
      ...days.map((day) => `${day}T23:59:60.000Z`),
      ...days.map((day) => `${day}T23:59:59.999Z`),
    ),
    organisation: of('acme', 'A', 'a b', ...long('a')),
    period: of('2026-11-01', ...days),
    draw: of('pool', 'stack', 'own', 'none'),
    model: of('m/x:1.0_b', 'a b', ...long('m')),
    promptTokens: of(3, ...numbers),
    completionTokens: of(4, ...numbers),
    stack: of('stk-a-b-c', 'stk-a1-b-c', 'stk-a-b', `stk-a-b-${'c'.repeat(60)}`),
    key: of('k-1', 'K', ...long('k')),
    ttftMs: of(1, ...numbers),
    durationMs: of(2, ...numbers),
    estimated: of(true, false),
    requestId: of('r-1', 'r 1', '"', '\\', '~!', ...long('r')),
  },
  {
    requiredKeys: [
      'at',
      'organisation',
      'period',
      'draw',
      'model',
      'promptTokens',
      'completionTokens',
      'requestId',
    ],
  },
);

test('a recognised row is valid by the schema, and counts as it does when parsed', () => {
  let recognised = 0;
  fc.assert(
    fc.property(row, (usage) => {
      const entries = entriesOfPlainRow(JSON.stringify(usage));
      if (entries === undefined) return;
      recognised++;
      const parsed = usageRowSchema.parse({ ...envelope, ...usage });
      expect(entries).toEqual(entriesOf(parsed, {}));
    }),
    { numRuns: runs({ fast: 2_000, full: 6000 }) },
  );
  expect(recognised).toBeGreaterThan(100);
});

test('rejecting the longest row takes time proportional to its length', () => {
  const before = process.cpuUsage();
  for (let count = 0; count < 100; count++)
    expect(entriesOfPlainRow(`{"at":"${usual.at}","organisation":"${'a-'.repeat(50_000)}`)).toBeUndefined();
  const { user, system } = process.cpuUsage(before);
  expect(user + system).toBeLessThan(1_000_000);
});
