/** Tests when a process publishes an entry of a limit and how much it claims. */
import { expect, test } from 'vitest';
import type { LimitRow } from '../../shared/limits/claims-rows.ts';
import { OwnLimit, type OwnState } from './own-limit.ts';

const name = { subject: 'acme', window: 60_000, limit: 60 };
const row: LimitRow = {
  ...name,
  ...{ cells: new Map(), claimed: 8, used: 4, short: 1, epoch: 0, members: 0, above: 0, below: 0 },
};
const calm: OwnState = { readN: 1, isAlone: false, left: 56, share: 0, isContended: false };

test('what is no longer wanted is given up after five seconds', () => {
  const own = new OwnLimit(name);
  own.entry(1, 8, false, 0);
  expect(own.due(undefined, undefined, calm, 4999)).toBe('no');
  expect(own.due(undefined, undefined, calm, 5000)).toBe('with the next');
});

test('what was admitted lately is asked for once more, and only what is used where another lacks room', () => {
  const own = new OwnLimit(name);
  own.admitted(4, 1000);
  expect(own.wanted(row, undefined, calm, 1000)).toBe(8);
  expect(own.wanted(row, undefined, { ...calm, isContended: true }, 1000)).toBe(4);
});

test('where another lacks room, what is claimed and not wanted is given up at once', () => {
  const own = new OwnLimit(name);
  own.admitted(4, 1000);
  own.entry(1, 8, false, 1000);
  expect(own.due(row, undefined, calm, 1000)).toBe('no');
  expect(own.due(row, undefined, { ...calm, isContended: true }, 1000)).toBe('now');
});
