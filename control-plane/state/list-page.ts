/**
 * Pages of lists: filtered, searched and sorted by the database, so that a page costs what it shows. Each page is continued
 * by a cursor from where the one before ended, whatever was added in the meantime.
 */
import { z } from 'zod';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, count, first } from '../../shared/runtime/statements.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { CommandError } from '../core/command-error.ts';

export interface PageQuery {
  /** Whose rows alone are listed. */
  readonly owner?: string | undefined;
  /** What a row must contain; upper and lower case of ASCII letters are the same. */
  readonly text?: string | undefined;
  /** Where rows have one: `active`, `down`. */
  readonly state?: string | undefined;
  /** A field of the answer; `-field`: the other way round. */
  readonly sort?: string | undefined;
  /** Absent: as many as the API gives without one. */
  readonly limit?: number | undefined;
  /** `next` of the page before. */
  readonly after?: string | undefined;
  /** The clock by which a key has expired. */
  readonly nowMs: number;
}

/** Of a longer list one page searches so many rows, and only orders that an index has are served. */
const searchedMaxDefault = 100_000;

/** A table, and what its rows are sorted and searched by. All of it is SQL of this program. */
export interface Listing<Row, Item> {
  readonly table: string;
  /** The column that says whose a row is; absent: `organisation`. */
  readonly owner?: string;
  /** A query in parentheses, of the rows of the table that are listed; absent: the table. */
  readonly from?: string;
  /** Which rows of the table are not listed: an index must find them. Absent: none. */
  readonly unlisted?: string;
  /** Whether `from` has one `?`, for the clock. */
  readonly hasClock?: boolean;
  /** What the column `state` of `from` may be; absent: it has none. */
  readonly states?: readonly string[];
  /** Expressions by field of the answer, never NULL; the first is the order without `sort`. */
  readonly sorts: Readonly<Record<string, string>>;
  /** Those of them that the key or an index serves, however long the list is. */
  readonly indexed: readonly string[];
  readonly searchedMax?: number;
  readonly searched: readonly string[];
  /** Ends each order, so that no two rows are at the same place. */
  readonly key: readonly string[];
  item(row: Row, db: Database, nowMs: number): Item;
}

export class ListPage<Item> {
  readonly items: readonly Item[];
  /** Absent: this page is the last one. */
  readonly next?: string;
  /** Of all pages; absent where a search of a long list would have to read all of it. */
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
  readonly field: string;
  readonly expression: string;
  readonly isDescending: boolean;
}

/** Throws CommandError InvalidCommand. */
export function listPage<Row, Item>(
  db: Database,
  listing: Listing<Row, Item>,
  query: PageQuery,
): ListPage<Item> {
  const { key, item } = listing;
  const { nowMs, limit = pageRows.default } = query;
  const order = orderOf(listing, query.sort);
  const filter = filterOf(listing, query);
  const length = lengthOf(db, listing, query.owner);
  const isLong = length > (listing.searchedMax ?? searchedMaxDefault);
  if (isLong) checkServed(listing, order);
  const begin = query.after === undefined ? undefined : placeOf(query.after, order, key);
  const end = isLong && filter.isSearch ? endOfSearch(db, listing, query, order, begin) : undefined;
  const rows = rowsOf<Row>(db, listing, order, filter, { begin, end, count: limit + 1 });
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  const place = last ? placeOfRow(key, last) : end;
  const total = filter.isSearch ? foundIn(db, listing, filter, isLong) : length;
  return new ListPage(
    shown.map((row) => item(row, db, nowMs)),
    { next: place && cursorOf(order, place), ...(total !== undefined && { total }) },
  );
}

interface Part {
  readonly begin: Place | undefined;
  readonly end: Place | undefined;
  readonly count: number;
}

function rowsOf<Row>(
  db: Database,
  listing: Pick<AnyListing, 'from' | 'table' | 'key'>,
  order: Order,
  filter: Filter,
  { begin, end, count: max }: Part,
): (PlacedRow & Row)[] {
  const columns = [order.expression, ...listing.key];
  const way = order.isDescending ? 'DESC' : 'ASC';
  const conditions = [
    filter.sql,
    ...(begin ? [compared(columns, order.isDescending ? '<' : '>')] : []),
    ...(end ? [compared(columns, order.isDescending ? '>=' : '<=')] : []),
  ];
  return all<PlacedRow & Row>(
    db,
    `SELECT *, ${order.expression} AS page_place FROM ${fromOf(listing)} WHERE ${conditions.join(' AND ')}
       ORDER BY ${columns.map((column) => `${column} ${way}`).join(', ')} LIMIT ?`,
    ...[...filter.values, ...(begin ?? []), ...(end ?? []), max],
  );
}

/** What a list is ordered by and the key, of the row at which a page ends. */
type Place = readonly (string | number)[];
type PlacedRow = Readonly<Record<string, unknown>> & { readonly page_place: string | number };
type AnyListing = Listing<never, unknown>;

const ownerOf = ({ owner = 'organisation' }: Pick<AnyListing, 'owner'>): string => owner;
const fromOf = ({ from, table }: Pick<AnyListing, 'from' | 'table'>): string => from ?? table;

function compared(columns: readonly string[], operator: string): string {
  return `(${columns.join(', ')}) ${operator} (${columns.map(() => '?').join(', ')})`;
}

/** How many rows there are to search and sort: indexes are counted, and no row is read. */
function lengthOf(
  db: Database,
  listing: Pick<AnyListing, 'table' | 'unlisted' | 'owner'>,
  owner: string | undefined,
): number {
  const { table, unlisted } = listing;
  // What is not listed belongs to nobody.
  if (owner !== undefined)
    return count(db, `SELECT count(*) FROM ${table} WHERE ${ownerOf(listing)} = ?`, owner);
  const hidden = unlisted === undefined ? 0 : count(db, `SELECT count(*) FROM ${table} WHERE ${unlisted}`);
  return count(db, `SELECT count(*) FROM ${table}`) - hidden;
}

/** How many a search finds; undefined: all of a long list would be read for it. */
function foundIn(
  db: Database,
  listing: Pick<AnyListing, 'from' | 'table'>,
  { sql, values }: Filter,
  isLong: boolean,
): number | undefined {
  return isLong ? undefined : count(db, `SELECT count(*) FROM ${fromOf(listing)} WHERE ${sql}`, ...values);
}

/** The last row that this page searches; undefined: the rest of the list is shorter. */
function endOfSearch(
  db: Database,
  listing: Pick<AnyListing, 'table' | 'owner' | 'key' | 'searchedMax'>,
  { owner }: PageQuery,
  order: Order,
  begin: Place | undefined,
): Place | undefined {
  const { table, key, searchedMax = searchedMaxDefault } = listing;
  const columns = [order.expression, ...key];
  const way = order.isDescending ? 'DESC' : 'ASC';
  const conditions = [
    // Also leaves out what is not listed: it has no place in an order.
    `${order.expression} IS NOT NULL`,
    ...(owner === undefined ? [] : [`${ownerOf(listing)} = ?`]),
    ...(begin ? [compared(columns, order.isDescending ? '<' : '>')] : []),
  ];
  const row = first<PlacedRow>(
    db,
    `SELECT ${order.expression} AS page_place, ${key.join(', ')} FROM ${table} WHERE ${conditions.join(' AND ')}
       ORDER BY ${columns.map((column) => `${column} ${way}`).join(', ')} LIMIT 1 OFFSET ?`,
    ...(owner === undefined ? [] : [owner]),
    ...[...(begin ?? []), searchedMax - 1],
  );
  return row && placeOfRow(key, row);
}

/** Throws CommandError where so many rows would have to be sorted. */
function checkServed({ indexed }: Pick<AnyListing, 'indexed'>, { field }: Order): void {
  if (indexed.includes(field)) return;
  throw new CommandError('InvalidCommand', `this list is too long to be sorted by ${field}`, {
    next: `sort by one of ${indexed.join(', ')}, or read the list of one organisation`,
  });
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
  return { name: sort, field, expression, isDescending };
}

interface Filter {
  readonly sql: string;
  readonly values: readonly SqlValue[];
  /** Rows are read to know whether they are found. */
  readonly isSearch: boolean;
}

function filterOf(
  listing: Pick<AnyListing, 'searched' | 'hasClock' | 'states' | 'owner'>,
  { owner, text, state, nowMs }: PageQuery,
): Filter {
  const { searched, hasClock = false, states } = listing;
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
    ...(owner === undefined ? [] : [`${ownerOf(listing)} = ?`]),
    ...(state === undefined ? [] : ['state = ?']),
    ...(isText ? [`instr(lower(${row}), ?) > 0`] : []),
  ];
  return {
    isSearch: isText || state !== undefined,
    sql: conditions.length === 0 ? 'true' : conditions.join(' AND '),
    values: [
      ...(hasClock ? [nowMs] : []),
      ...(owner === undefined ? [] : [owner]),
      ...(state === undefined ? [] : [state]),
      // As SQLite does it: other letters than those of ASCII are left as they are.
      ...(isText ? [text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())] : []),
    ],
  };
}

const cursorSchema = z.array(z.union([z.string(), z.number()])).max(8);

export function cursorOf({ name }: Pick<Order, 'name'>, place: Place): string {
  return Buffer.from(JSON.stringify([name, ...place])).toString('base64url');
}

function placeOfRow(key: readonly string[], row: PlacedRow): Place {
  return [row.page_place, ...key.map((column) => row[column] as string | number)];
}

/** Throws CommandError for a text that no page of this order gave. */
export function placeOf(text: string, { name }: Pick<Order, 'name'>, key: readonly string[]): Place {
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
