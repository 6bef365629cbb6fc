/** Rows of the Requests page. New rows are added before them and earlier rows after them. */
import type { RequestList, RequestRow, RequestsMessage } from '../../schemas/admin/requests.ts';

export const rowsMax = 10_000;
/** Number of newest rows among which repeated requests are detected. */
const repeatedAmong = 2000;

export interface Rows {
  /** Rows, newest first. */
  readonly items: readonly RequestRow[];
  /** Cursor of earlier rows. undefined if there are none. */
  readonly next: string | undefined;
  /** Whether the oldest rows were dropped in favour of newer ones. */
  readonly hasDropped: boolean;
  /** Gateways whose requests are missing. */
  readonly silent: readonly string[];
  /** Number of requests that arrived faster than they could be shown. */
  readonly missed: number;
}

/** Adds rows that arrived. If the stream has restarted (`isFirst`) without a row in common, drops the old rows. */
export function withArrived(shown: Rows | undefined, arrived: RequestsMessage, isFirst: boolean): Rows {
  const { items, next, silent, missed = 0 } = arrived;
  const fresh = newRows(shown?.items.slice(0, repeatedAmong), items);
  const isApart = isFirst && items.length > 0 && fresh.length === items.length;
  if (shown === undefined || isApart) return { items, next, hasDropped: false, silent, missed };
  const all = fresh.length === 0 ? shown.items : [...fresh, ...shown.items];
  const hasDropped = shown.hasDropped || all.length > rowsMax;
  return {
    // Keep the same list if nothing is new, so that rows are not measured again.
    items: all.length > rowsMax ? all.slice(0, rowsMax) : all,
    // The cursor follows the dropped rows, not the remaining ones.
    next: hasDropped ? undefined : shown.next,
    ...{ hasDropped, silent, missed: shown.missed + missed },
  };
}

export function withOlder(shown: Rows, { items, next, silent }: RequestList): Rows {
  const all = [...shown.items, ...newRows(shown.items, items)];
  const isFull = all.length >= rowsMax;
  return { ...shown, items: all.slice(0, rowsMax), next: isFull ? undefined : next, silent };
}

/** Number of held rows that are newer than the rows shown. */
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
