/** The rows that the page of requests keeps: what arrives comes before them, what is earlier after them. */
import type { RequestList, RequestRow, RequestsMessage } from '../../schemas/admin/requests.ts';

/** So many are kept. */
export const rowsMax = 10_000;
/** What arrives again is among so many newest ones. */
const repeatedAmong = 2000;

export interface Rows {
  /** Newest first. */
  readonly items: readonly RequestRow[];
  /** What earlier ones are asked with; undefined: there are none. */
  readonly next: string | undefined;
  /** The oldest gave way to newer ones. */
  readonly hasDropped: boolean;
  /** Gateways whose requests are missing. */
  readonly silent: readonly string[];
  /** That came faster than they can be shown. */
  readonly missed: number;
}

/**
 * `isFirst`: the stream has begun again. Where it then has nothing of what is shown, there may be a gap between the two, and what
 * was shown is left.
 */
export function withArrived(shown: Rows | undefined, arrived: RequestsMessage, isFirst: boolean): Rows {
  const { items, next, silent, missed = 0 } = arrived;
  const fresh = unknownIn(shown?.items.slice(0, repeatedAmong), items);
  const isApart = isFirst && items.length > 0 && fresh.length === items.length;
  if (shown === undefined || isApart) return { items, next, hasDropped: false, silent, missed };
  const all = fresh.length === 0 ? shown.items : [...fresh, ...shown.items];
  const hasDropped = shown.hasDropped || all.length > rowsMax;
  return {
    // The same list where nothing is new: nobody measures its rows again.
    items: all.length > rowsMax ? all.slice(0, rowsMax) : all,
    // What would follow the rows that were dropped does not follow those that are left.
    next: hasDropped ? undefined : shown.next,
    ...{ hasDropped, silent, missed: shown.missed + missed },
  };
}

export function withOlder(shown: Rows, { items, next, silent }: RequestList): Rows {
  const all = [...shown.items, ...unknownIn(shown.items, items)];
  const isFull = all.length >= rowsMax;
  return { ...shown, items: all.slice(0, rowsMax), next: isFull ? undefined : next, silent };
}

/** How many rows are held that are newer than those that are shown. */
export function arrivedSince(shown: Rows | undefined, held: Rows | undefined): number {
  if (held === undefined) return 0;
  const newest = shown?.items[0]?.request;
  const at = held.items.findIndex(({ request }) => request === newest);
  return at < 0 ? held.items.length : at;
}

function unknownIn(shown: readonly RequestRow[] = [], items: readonly RequestRow[]): readonly RequestRow[] {
  const known = new Set(shown.map(({ request }) => request));
  return items.filter(({ request }) => !known.has(request));
}
