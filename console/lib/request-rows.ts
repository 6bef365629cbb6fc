/** Keeps the rows of the Requests page. New rows are added at the top, and earlier rows at the bottom. */
import type { RequestList, RequestRow, RequestsMessage } from '../../schemas/admin/requests.ts';

export const rowsMax = 10_000;
/** Number of rows, counted from the newest, that are searched for requests that arrive again. */
const repeatedAmong = 2000;

export interface Rows {
  /** Rows, newest first. */
  readonly items: readonly RequestRow[];
  /** Cursor for reading earlier rows, or undefined if there are no earlier rows. */
  readonly next: string | undefined;
  /** Whether the oldest rows were dropped to make room for newer ones. */
  readonly hasDropped: boolean;
  /** Names of gateways whose requests are missing from the list. */
  readonly silent: readonly string[];
  /** Number of requests that are not shown because they arrived too fast. */
  readonly missed: number;
}

/** Adds newly arrived rows. After a restart of the stream (`isFirst`), rows that do not overlap with the old replace them. */
export function withArrived(shown: Rows | undefined, arrived: RequestsMessage, isFirst: boolean): Rows {
  const { items, next, silent, missed = 0 } = arrived;
  const fresh = newRows(shown?.items.slice(0, repeatedAmong), items);
  const isApart = isFirst && items.length > 0 && fresh.length === items.length;
  if (shown === undefined || isApart) return { items, next, hasDropped: false, silent, missed };
  const all = fresh.length === 0 ? shown.items : [...fresh, ...shown.items];
  const hasDropped = shown.hasDropped || all.length > rowsMax;
  return {
    // Keep the same list if there are no new rows, so that the table does not measure its rows again.
    items: all.length > rowsMax ? all.slice(0, rowsMax) : all,
    // Drop the cursor, because reading on from it would skip the dropped rows.
    next: hasDropped ? undefined : shown.next,
    ...{ hasDropped, silent, missed: shown.missed + missed },
  };
}

export function withOlder(shown: Rows, { items, next, silent }: RequestList): Rows {
  const all = [...shown.items, ...newRows(shown.items, items)];
  const isFull = all.length >= rowsMax;
  return { ...shown, items: all.slice(0, rowsMax), next: isFull ? undefined : next, silent };
}

/** Returns how many of the rows held back are newer than the rows shown. */
export function arrivedSince(shown: Rows | undefined, held: Rows | undefined): number {
  if (held === undefined) return 0;
  const newest = shown?.items[0]?.request;
  const at = held.items.findIndex(({ request }) => request === newest);
  return at < 0 ? held.items.length : at;
}

function newRows(shown: readonly RequestRow[] = [], items: readonly RequestRow[]): readonly RequestRow[] {
  const known = new Set(shown.map(({ request }) => request));
  return items.filter(({ request }) => !known.has(request));
}
