import { expect, test } from 'vitest';
import { arrivedSince, type Rows, rowsMax, withArrived, withOlder } from '../../console/lib/request-rows.ts';
import type { RequestRow } from '../../schemas/admin/requests.ts';

const row = (at: number) => ({ request: `req_${at}` }) as RequestRow;
const rows = (from: number, to: number): RequestRow[] =>
  Array.from({ length: from - to + 1 }, (_, at) => row(from - at));
const shownOf = (items: RequestRow[], next?: string): Rows =>
  withArrived(undefined, { items, silent: [], ...(next && { next }) }, true);
const names = ({ items }: Rows): string[] => items.map(({ request }) => request.slice(4));

test('new rows come first, and no row appears twice', () => {
  const shown = shownOf(rows(3, 1), 'cursor');
  const next = withArrived(shown, { items: [row(5), row(4), row(3)], silent: ['edge-2'], missed: 2 }, false);
  expect(names(next)).toEqual(['5', '4', '3', '2', '1']);
  expect(next).toMatchObject({ next: 'cursor', silent: ['edge-2'], missed: 2 });
  expect(withArrived(next, { items: [], silent: [] }, false).items).toBe(next.items);
});

test('a restarted stream joins the rows shown, or replaces them if rows may be missing', () => {
  const shown = shownOf(rows(3, 1), 'cursor');
  expect(names(withArrived(shown, { items: rows(4, 2), silent: [], next: 'other' }, true))).toEqual([
    '4',
    '3',
    '2',
    '1',
  ]);
  const apart = withArrived(shown, { items: rows(9, 7), silent: [], next: 'other' }, true);
  expect([names(apart), apart.next]).toEqual([['9', '8', '7'], 'other']);
  expect(names(withArrived(shown, { items: [], silent: ['edge-1'] }, true))).toEqual(['3', '2', '1']);
});

test('only a limited number of rows is kept: the oldest are dropped, and earlier ones are no longer appended', () => {
  const shown = shownOf(rows(rowsMax - 1, 1), 'cursor');
  const full = withArrived(shown, { items: rows(rowsMax + 1, rowsMax), silent: [] }, false);
  expect([full.items.length, full.items.at(-1), full.next, full.hasDropped]).toEqual([
    rowsMax,
    row(2),
    undefined,
    true,
  ]);
  const older = withOlder(shown, { items: rows(0, -5), next: 'more', silent: [] });
  expect([older.items.length, older.items.at(-1), older.next]).toEqual([rowsMax, row(0), undefined]);
});

test('earlier rows come last', () => {
  const shown = shownOf(rows(9, 7), 'cursor');
  const older = withOlder(shown, { items: rows(7, 5), next: 'more', silent: ['edge-2'] });
  expect([names(older), older.next, older.silent]).toEqual([['9', '8', '7', '6', '5'], 'more', ['edge-2']]);
});

test('rows held back are those newer than the newest row shown', () => {
  const shown = shownOf(rows(3, 1));
  expect(arrivedSince(shown, undefined)).toBe(0);
  expect(arrivedSince(shown, withArrived(shown, { items: rows(5, 4), silent: [] }, false))).toBe(2);
  expect(arrivedSince(shown, shownOf(rows(9, 7)))).toBe(3);
});
