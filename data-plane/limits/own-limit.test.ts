/** Tests when a process publishes an entry about a limit, and how much it claims. */
import { expect, test } from 'vitest';
import type { LimitRow } from '../../shared/limits/claims-rows.ts';
import { OwnLimit, type OwnState } from './own-limit.ts';

const name = { subject: 'acme', window: 60_000, limit: 60 };
const row: LimitRow = {
  ...name,
  ...{ cells: new Map(), claimed: 8, used: 4, short: 1, epoch: 0, members: 0, above: 0, below: 0 },
};
const calm: OwnState = { readN: 1, isAlone: false, left: 56, share: 0, isContended: false };

test('room that is no longer wanted is given up after five seconds', () => {
  const own = new OwnLimit(name);
  own.entry(1, 8, false, 0);
  expect(own.due(undefined, undefined, calm, 4999)).toBe('no');
  expect(own.due(undefined, undefined, calm, 5000)).toBe('with the next');
});

test('recent admissions are requested once more, unless another gateway lacks room', () => {
  const own = new OwnLimit(name);
  own.admitted(4, 1000);
  expect(own.wanted(row, undefined, calm, 1000)).toBe(8);
  expect(own.wanted(row, undefined, { ...calm, isContended: true }, 1000)).toBe(4);
});

test('unwanted claims are given up at once when another gateway lacks room', () => {
  const own = new OwnLimit(name);
  own.admitted(4, 1000);
  own.entry(1, 8, false, 1000);
  expect(own.due(row, undefined, calm, 1000)).toBe('no');
  expect(own.due(row, undefined, { ...calm, isContended: true }, 1000)).toBe('now');
});
