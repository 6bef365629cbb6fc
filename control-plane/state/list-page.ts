/** Reads pages of lists, which the database filters, searches and sorts. A cursor stays valid even if rows are added. */
import { z } from 'zod';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, count, first } from '../../shared/runtime/statements.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { CommandError } from '../core/command-error.ts';

export interface PageQuery {
  /** Owner to whose rows the list is restricted. */
  readonly owner?: string | undefined;
  /** Text that a row must contain. The case of ASCII letters is ignored. */
  readonly text?: string | undefined;
  /** State that a row must have, such as `active` or `down`, for lists whose rows have a state. */
  readonly state?: string | undefined;
  /** Field of the response by which to sort. `-field` reverses the order. */
  readonly sort?: string | undefined;
  /** Number of rows. If absent, the API's default applies. */
  readonly limit?: number | undefined;
  /** Value of `next` on the previous page. */
  readonly after?: string | undefined;
  /** Time in ms since 1970 that decides which keys count as expired. */
  readonly nowMs: number;
}

/**
 * Maximum number of rows that one page of a long list searches. Lists with more rows can be sorted only by indexed fields.
 */
const searchedMaxDefault = 100_000;

/** Table with the columns by which it is sorted and searched. All strings are SQL from this program, never input. */
export interface Listing<Row, Item> {
  readonly table: string;
  /** Column that contains the owner of a row. Default: `organisation`. */
  readonly owner?: string;
  /** Subquery in parentheses that selects the listed rows. Default: the table. */
  readonly from?: string;
  /** Condition that matches the rows to leave out of the list, for which there must be an index. Absent if all are listed. */
  readonly unlisted?: string;
  /** Whether `from` contains a `?` that stands for `nowMs`. */
  readonly hasClock?: boolean;
  /** Possible values of the column `state` in `from`. Absent if there is no such column. */
  readonly states?: readonly string[];
  /** SQL expressions by field of the response, which are never NULL. The first one is the default order. */
  readonly sorts: Readonly<Record<string, string>>;
  /** Fields for which the key or an index supplies the order, so that lists of any length can be sorted by them. */
  readonly indexed: readonly string[];
  readonly searchedMax?: number;
  readonly searched: readonly string[];
  /** Columns that are appended to each order, so that no two rows have the same position in it. */
  readonly key: readonly string[];
  item(row: Row, db: Database, nowMs: number): Item;
}

export class ListPage<Item> {
  readonly items: readonly Item[];
  /** Cursor of the next page. Absent on the last page. */
  readonly next?: string;
  /** Number of rows on all pages. Absent if counting would have to read all rows of a long list. */
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
  /** Sort order as the caller requested it. */
  readonly name: string;
  readonly field: string;
  readonly expression: string;
  readonly isDescending: boolean;
}

/** Reads one page. Throws an `InvalidCommand` error if the query is not valid for this list. */
export function listPage<Row, Item>(
  db: Database,
  listing: Listing<Row, Item>,
  query: PageQuery,
): ListPage<Item> {
  const { key, item } = listing;
  const { nowMs, limit = pageRows.default } = query;
  const order = parseOrder(listing, query.sort);
  const filter = buildFilter(listing, query);
  const length = countListed(db, listing, query.owner);
  const isLong = length > (listing.searchedMax ?? searchedMaxDefault);
  if (isLong) checkServed(listing, order);
  const begin = query.after === undefined ? undefined : parseCursor(query.after, order, key);
  const end = isLong && filter.isSearch ? endOfSearch(db, listing, query, order, begin) : undefined;
  const rows = readRows<Row>(db, listing, order, filter, { begin, end, count: limit + 1 });
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  const place = last ? placeOfRow(key, last) : end;
  const total = filter.isSearch ? countMatches(db, listing, filter, isLong) : length;
  return new ListPage(
    shown.map((row) => item(row, db, nowMs)),
    { next: place && formatCursor(order, place), ...(total !== undefined && { total }) },
  );
}

interface Part {
  readonly begin: Place | undefined;
  readonly end: Place | undefined;
  readonly count: number;
}

function readRows<Row>(
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
    ...(begin ? [compareColumns(columns, order.isDescending ? '<' : '>')] : []),
    ...(end ? [compareColumns(columns, order.isDescending ? '>=' : '<=')] : []),
  ];
  return all<PlacedRow & Row>(
    db,
    `SELECT *, ${order.expression} AS page_place FROM ${fromOf(listing)} WHERE ${conditions.join(' AND ')}
       ORDER BY ${columns.map((column) => `${column} ${way}`).join(', ')} LIMIT ?`,
    ...[...filter.values, ...(begin ?? []), ...(end ?? []), max],
  );
}

/** Place of a row in the order: its sort value, followed by its key. */
type Place = readonly (string | number)[];
type PlacedRow = Readonly<Record<string, unknown>> & { readonly page_place: string | number };
type AnyListing = Listing<never, unknown>;

const ownerOf = ({ owner = 'organisation' }: Pick<AnyListing, 'owner'>): string => owner;
const fromOf = ({ from, table }: Pick<AnyListing, 'from' | 'table'>): string => from ?? table;

function compareColumns(columns: readonly string[], operator: string): string {
  return `(${columns.join(', ')}) ${operator} (${columns.map(() => '?').join(', ')})`;
}

/** Counts the rows to search and sort. It counts index entries and does not read rows. */
function countListed(
  db: Database,
  listing: Pick<AnyListing, 'table' | 'unlisted' | 'owner'>,
  owner: string | undefined,
): number {
  const { table, unlisted } = listing;
  // Rows that are not listed have no owner, so they need not be subtracted.
  if (owner !== undefined)
    return count(db, `SELECT count(*) FROM ${table} WHERE ${ownerOf(listing)} = ?`, owner);
  const hidden = unlisted === undefined ? 0 : count(db, `SELECT count(*) FROM ${table} WHERE ${unlisted}`);
  return count(db, `SELECT count(*) FROM ${table}`) - hidden;
}

/** Counts the rows that match a filter, or returns undefined if that would have to read all rows of a long list. */
function countMatches(
  db: Database,
  listing: Pick<AnyListing, 'from' | 'table'>,
  { sql, values }: Filter,
  isLong: boolean,
): number | undefined {
  return isLong ? undefined : count(db, `SELECT count(*) FROM ${fromOf(listing)} WHERE ${sql}`, ...values);
}

/** Returns the place of the last row that this page may search, or undefined if fewer rows remain. */
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
    // Also excludes rows that the list leaves out, because they have no sort value.
    `${order.expression} IS NOT NULL`,
    ...(owner === undefined ? [] : [`${ownerOf(listing)} = ?`]),
    ...(begin ? [compareColumns(columns, order.isDescending ? '<' : '>')] : []),
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

/** Throws `CommandError` if too many rows would have to be sorted, because no index supplies the order. */
function checkServed({ indexed }: Pick<AnyListing, 'indexed'>, { field }: Order): void {
  if (indexed.includes(field)) return;
  throw new CommandError('InvalidCommand', `this list is too long to be sorted by ${field}`, {
    next: `sort by one of ${indexed.join(', ')}, or read the list of one organisation`,
  });
}

function parseOrder(
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
  /** Whether rows must be read to find out if they match. */
  readonly isSearch: boolean;
}

function buildFilter(
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
  // Line feeds separate the columns, so that no text matches across two of them.
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
      // Lower-cases only ASCII letters, as SQLite does.
      ...(isText ? [text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())] : []),
    ],
  };
}

const cursorSchema = z.array(z.union([z.string(), z.number()])).max(8);

export function formatCursor({ name }: Pick<Order, 'name'>, place: Place): string {
  return Buffer.from(JSON.stringify([name, ...place])).toString('base64url');
}

function placeOfRow(key: readonly string[], row: PlacedRow): Place {
  return [row.page_place, ...key.map((column) => row[column] as string | number)];
}

/** Parses a cursor. Throws `CommandError` if it was not issued for this order. */
export function parseCursor(text: string, { name }: Pick<Order, 'name'>, key: readonly string[]): Place {
  const [sort, ...place] = cursorSchema.safeParse(tryParseJson(text)).data ?? [];
  if (sort === name && place.length === key.length + 1) return place;
  throw new CommandError('InvalidCommand', 'after is not a cursor of this list in this order', {
    next: 'leave it out to begin with the first page',
  });
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
}
