/**
 * Pages of lists: filtered, searched and sorted by the database, so that a page costs what it shows. Each page is continued
 * by a cursor from where the one before ended, whatever was added in the meantime.
 */
import { z } from 'zod';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { CommandError } from '../core/command-error.ts';
import { all, count, limitOf } from './statements.ts';

export interface PageQuery {
  readonly organisation?: string | undefined;
  /** What a row must contain; upper and lower case of ASCII letters are the same. */
  readonly text?: string | undefined;
  /** Where rows have one: `active`, `down`. */
  readonly state?: string | undefined;
  /** A field of the answer; `-field`: the other way round. */
  readonly sort?: string | undefined;
  readonly limit?: number | undefined;
  /** `next` of the page before. */
  readonly after?: string | undefined;
  /** The clock by which a key has expired. */
  readonly nowMs: number;
}

/** A table, and what its rows are sorted and searched by. All of it is SQL of this program. */
export interface Listing<Row, Item> {
  /** A table or a query in parentheses. */
  readonly from: string;
  /** Whether `from` has one `?`, for the clock. */
  readonly hasClock?: boolean;
  /** What the column `state` of `from` may be; absent: it has none. */
  readonly states?: readonly string[];
  /** Expressions by field of the answer, never NULL; the first is the order without `sort`. */
  readonly sorts: Readonly<Record<string, string>>;
  readonly searched: readonly string[];
  /** Ends each order, so that no two rows are at the same place. */
  readonly key: readonly string[];
  item(row: Row, db: Database, nowMs: number): Item;
}

export class ListPage<Item> {
  readonly items: readonly Item[];
  /** Absent: this page is the last one. */
  readonly next?: string;
  /** Of all pages; where a limit was given. */
  readonly total?: number;

  constructor(items: readonly Item[], { next, total }: { next?: string | undefined; total?: number } = {}) {
    this.items = items;
    if (next !== undefined) this.next = next;
    if (total !== undefined) this.total = total;
  }

  map<Other>(change: (item: Item) => Other): ListPage<Other> {
    const { next, total } = this;
    return new ListPage(this.items.map(change), { next, ...(total !== undefined && { total }) });
  }
}

interface Order {
  /** As it was asked for. */
  readonly name: string;
  readonly expression: string;
  readonly isDescending: boolean;
}

/** Throws CommandError InvalidCommand. */
export function listPage<Row, Item>(
  db: Database,
  listing: Listing<Row, Item>,
  query: PageQuery,
): ListPage<Item> {
  const { from, key, item } = listing;
  const { limit, nowMs } = query;
  const order = orderOf(listing, query.sort);
  const filter = filterOf(listing, query);
  const place = query.after === undefined ? undefined : placeOf(query.after, order, key);
  const columns = [order.expression, ...key];
  const way = order.isDescending ? 'DESC' : 'ASC';
  const beyond = place
    ? ` AND (${columns.join(', ')}) ${order.isDescending ? '<' : '>'} (${columns.map(() => '?').join(', ')})`
    : '';
  const rows = all<Row & { readonly page_place: string | number }>(
    db,
    `SELECT *, ${order.expression} AS page_place FROM ${from} WHERE ${filter.sql}${beyond}
       ORDER BY ${columns.map((column) => `${column} ${way}`).join(', ')} LIMIT ?`,
    ...[...filter.values, ...(place ?? []), limit === undefined ? limitOf(limit) : limit + 1],
  );
  const shown = limit === undefined ? rows : rows.slice(0, limit);
  const items = shown.map((row) => item(row, db, nowMs));
  if (limit === undefined) return new ListPage(items);
  const last = rows.length > shown.length ? shown.at(-1) : undefined;
  const total = count(db, `SELECT count(*) FROM ${from} WHERE ${filter.sql}`, ...filter.values);
  return new ListPage(items, { next: last && cursorOf(order, key, last), total });
}

function orderOf(
  { sorts }: Pick<Listing<never, unknown>, 'sorts'>,
  sort = Object.keys(sorts)[0] ?? '',
): Order {
  const isDescending = sort.startsWith('-');
  const field = isDescending ? sort.slice(1) : sort;
  const expression = Object.hasOwn(sorts, field) ? sorts[field] : undefined;
  if (expression === undefined)
    throw new CommandError('InvalidCommand', `this list is not sorted by ${field.slice(0, 40)}`, {
      next: `sort by one of ${Object.keys(sorts).join(', ')}; - before it reverses the order`,
    });
  return { name: sort, expression, isDescending };
}

function filterOf(
  { searched, hasClock = false, states }: Pick<Listing<never, unknown>, 'searched' | 'hasClock' | 'states'>,
  { organisation, text, state, nowMs }: PageQuery,
): { readonly sql: string; readonly values: readonly SqlValue[] } {
  if (state !== undefined && states === undefined)
    throw new CommandError('InvalidCommand', 'the rows of this list have no state', { next: 'leave it out' });
  if (state !== undefined && !states?.includes(state))
    throw new CommandError('InvalidCommand', `state must be one of ${states?.join(', ')}`, {
      next: 'correct it, or leave it out for all of them',
    });
  const isText = text !== undefined && text !== '';
  // A line feed between the columns, so that nothing is found across two of them.
  const row = searched.map((column) => `coalesce(${column}, '')`).join(' || char(10) || ');
  const conditions = [
    ...(organisation === undefined ? [] : ['organisation = ?']),
    ...(state === undefined ? [] : ['state = ?']),
    ...(isText ? [`instr(lower(${row}), ?) > 0`] : []),
  ];
  return {
    sql: conditions.length === 0 ? 'true' : conditions.join(' AND '),
    values: [
      ...(hasClock ? [nowMs] : []),
      ...(organisation === undefined ? [] : [organisation]),
      ...(state === undefined ? [] : [state]),
      // As SQLite does it: other letters than those of ASCII are left as they are.
      ...(isText ? [text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())] : []),
    ],
  };
}

const cursorSchema = z.array(z.union([z.string(), z.number()])).max(8);

function cursorOf(
  { name }: Order,
  key: readonly string[],
  row: Readonly<Record<string, unknown>> & { readonly page_place: string | number },
): string {
  return Buffer.from(JSON.stringify([name, row.page_place, ...key.map((column) => row[column])])).toString(
    'base64url',
  );
}

/** Throws CommandError for a text that no page of this order gave. */
function placeOf(text: string, { name }: Order, key: readonly string[]): readonly (string | number)[] {
  const [sort, ...place] = cursorSchema.safeParse(parsed(text)).data ?? [];
  if (sort === name && place.length === key.length + 1) return place;
  throw new CommandError('InvalidCommand', 'after is not from a page of this list in this order', {
    next: 'leave it out to begin with the first page',
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
}
