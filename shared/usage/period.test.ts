/**
 * Tests that billing periods cover all time without gaps, and begin on the anchor day, or on a month's last day if the month
 * is too short.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { billingPeriod } from './period.ts';

const dayMs = 24 * 3600 * 1000;

test.each<[anchor: string, at: string, start: string, end: string]>([
  ['2026-11-01', '2026-11-01T00:00:00Z', '2026-11-01', '2026-12-01'],
  ['2026-11-01', '2026-11-30T23:59:59.999Z', '2026-11-01', '2026-12-01'],
  ['2026-11-15', '2026-12-14T23:59:59.999Z', '2026-11-15', '2026-12-15'],
  ['2026-11-15', '2026-12-15T00:00:00Z', '2026-12-15', '2027-01-15'],
  ['2026-01-31', '2026-02-27T12:00:00Z', '2026-01-31', '2026-02-28'],
  ['2026-01-31', '2026-02-28T00:00:00Z', '2026-02-28', '2026-03-31'],
  ['2026-01-31', '2028-02-28T23:00:00Z', '2028-01-31', '2028-02-29'],
  ['2026-01-31', '2028-02-29T00:00:00Z', '2028-02-29', '2028-03-31'],
  ['2026-01-31', '2100-02-28T00:00:00Z', '2100-02-28', '2100-03-31'],
  ['2026-01-31', '2026-04-30T00:00:00Z', '2026-04-30', '2026-05-31'],
  ['2030-06-10', '2026-01-05T00:00:00Z', '2025-12-10', '2026-01-10'],
])('Limits 4: with anchor %s the time %s is in the period %s to %s', (anchor, at, start, end) => {
  expect(billingPeriod(anchor, Date.parse(at))).toEqual({
    start,
    startMs: Date.parse(start),
    endMs: Date.parse(end),
  });
});

const day = fc
  .integer({ min: Date.UTC(1990, 0, 1) / dayMs, max: Date.UTC(2150, 0, 1) / dayMs })
  .map((days) => new Date(days * dayMs).toISOString().slice(0, 10));
const moment = fc.integer({ min: Date.UTC(1971, 0, 1), max: Date.UTC(2200, 0, 1) });

test('Limits 4: every moment is in exactly one period, and periods follow each other without a gap', () => {
  fc.assert(
    fc.property(day, moment, (anchor, atMs) => {
      const period = billingPeriod(anchor, atMs);
      expect(period.startMs).toBeLessThanOrEqual(atMs);
      expect(period.endMs).toBeGreaterThan(atMs);
      expect(Date.parse(period.start)).toBe(period.startMs);
      expect(billingPeriod(anchor, period.startMs)).toEqual(period);
      expect(billingPeriod(anchor, period.endMs - 1)).toEqual(period);
      expect(billingPeriod(anchor, period.endMs).startMs).toBe(period.endMs);
      expect(billingPeriod(anchor, period.startMs - 1).endMs).toBe(period.startMs);
    }),
  );
});

test('Limits 4: a period begins on the anchor day, or on the last day of a shorter month', () => {
  fc.assert(
    fc.property(day, moment, (anchor, atMs) => {
      const { startMs, endMs } = billingPeriod(anchor, atMs);
      for (const ms of [startMs, endMs]) {
        const date = new Date(ms).getUTCDate();
        const isMonthsLast = new Date(ms + dayMs).getUTCDate() === 1;
        const anchorDate = Number(anchor.slice(8));
        expect(date === anchorDate || (isMonthsLast && date < anchorDate)).toBe(true);
      }
    }),
  );
});

test('Limits 4: the anchor day begins its own period', () => {
  fc.assert(fc.property(day, (anchor) => billingPeriod(anchor, Date.parse(anchor)).start === anchor));
});
