/** What is claimed of each limit is the same whenever somebody asks for it: entries are kept as bytes until then. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type GaugeEntry, gaugeBucketOf, inFlightWindow } from '../../schemas/gauges.ts';
import { readGauges } from '../../test/support/read-gauges.ts';
import { ClaimsFold } from './claims-fold.ts';
import { ClaimsPast } from './claims-past.ts';

const subjects = ['acme', 'beta', 'visitors:all'] as const;
const windows = [inFlightWindow, 60_000, 120_000] as const;
const processes = ['a', 'b', 'c'] as const;

const entry = fc.record({
  subject: fc.constantFrom(...subjects),
  window: fc.constantFrom(...windows),
  limit: fc.constant(10),
  used: fc.nat(6),
  claim: fc.nat(12),
});
const step = fc.record({
  process: fc.constantFrom(...processes),
  entries: fc.array(entry, { maxLength: 4 }),
  ended: fc.option(fc.constantFrom(...processes), { freq: 6 }),
  isAlone: fc.boolean(),
});

function apply(fold: ClaimsFold, steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[]) {
  for (const [index, { process, entries, ended, isAlone }] of steps.entries()) {
    const rest = { ended: ended === null ? [] : [[ended, index] as const], silent: [] };
    const alone = isAlone ? { alone: index } : {};
    fold.apply(
      readGauges({ process, name: process, n: index + 1, entries, ...rest, ...alone }),
      index,
      index,
    );
  }
}

const all = (fold: ClaimsFold) =>
  subjects.flatMap((subject) => windows.map((window) => fold.row({ subject, window })));

test('what is asked for late, or again after it was forgotten, is what a reader has that asked from the beginning', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const [early, late, again] = [new ClaimsFold(), new ClaimsFold(), new ClaimsFold()];
      all(early);
      all(again);
      apply(early, steps);
      apply(late, steps);
      expect(late.size).toBe(0);
      apply(again, steps);
      // The first call after somebody asked keeps it, the second does not.
      again.sweep(steps.length, 60_000);
      again.sweep(steps.length, 60_000);
      expect(again.size).toBe(0);
      expect(all(late)).toEqual(all(early));
      expect(all(again)).toEqual(all(early));
    }),
  );
});

test('what somebody asks for continues to be folded, and nothing of other subjects is', () => {
  const fold = new ClaimsFold();
  const record = (n: number, used: number) =>
    readGauges({
      ...{ process: 'a', name: 'a', n, ended: [], silent: [] },
      entries: subjects.map((subject): GaugeEntry => ({ subject, window: 0, limit: 10, used, claim: used })),
    });
  expect(new Set(subjects.map(gaugeBucketOf)).size).toBe(3);
  fold.apply(record(1, 1), 1, 0);
  expect(fold.size).toBe(0);
  expect(fold.claimOf('a', { subject: 'acme', window: 0 })).toBe(1);
  fold.sweep(1, 1);
  fold.apply(record(2, 4), 2, 1);
  expect(fold.size).toBe(1);
  expect(fold.claimOf('a', { subject: 'acme', window: 0 })).toBe(4);
});

test('where there is too much to keep, everything is folded as it comes, and nothing is lost', () => {
  const fold = new ClaimsFold(new ClaimsPast(2000));
  const record = (n: number) =>
    readGauges({
      ...{ process: 'a', name: 'a', n, ended: [], silent: [] },
      entries: [{ subject: `organisation-${n}`, window: 0, limit: 10, used: 1, claim: 1 }],
    });
  for (let n = 1; n <= 50; n++) fold.apply(record(n), n, n);
  expect(fold.size).toBe(50);
  fold.sweep(50, 50);
  fold.sweep(50, 50);
  expect(fold.size).toBe(50);
});

test('what is older than a reader that starts would read back is not kept', () => {
  const fold = new ClaimsFold();
  const record = (n: number) =>
    readGauges({
      ...{ process: 'a', name: 'a', n, ended: [], silent: [] },
      entries: [{ subject: `organisation-${n}`, window: 0, limit: 10, used: 1, claim: 1 }],
    });
  for (let n = 0; n < 200; n++) fold.apply(record(n), n, n * 1000);
  for (let n = 0; n < 200; n++) fold.row({ subject: `organisation-${n}`, window: 0 });
  expect(fold.size).toBeGreaterThanOrEqual(70);
  expect(fold.size).toBeLessThanOrEqual(100);
});
