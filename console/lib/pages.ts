/** Reads lists that the control plane searches, sorts and returns in pages. The URL contains the search, order and page. */
import { useRef } from 'preact/hooks';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { shellWord } from './format.ts';
import { type ReadOptions, type ReadResult, useRead } from './read.ts';
import { location } from './router.ts';
import { moment } from './travel.ts';

const rowsPerPage = 500;

/** Names of operations that return a list in pages. */
type ListName = {
  [Name in OperationName]: 'total' extends keyof OperationAnswer<Name> ? Name : never;
}[OperationName];

interface Page {
  readonly items: readonly unknown[];
  readonly next?: string | undefined;
  readonly total?: number | undefined;
}

export interface PageState {
  readonly sort: string;
  /** Number of rows that match, over all pages. */
  readonly total: number;
  readonly isFirst: boolean;
  readonly next: string | undefined;
  /** Whether the rows belong to the previous query, because the current one is still being read. */
  readonly isOld: boolean;
  /** Whether the rows belong to another moment, so that they must not be shown. */
  readonly isOfOtherMoment: boolean;
}

type PageFilter = Readonly<Record<string, string | undefined>>;

interface PageQuery {
  readonly text: string | undefined;
  readonly state: string | undefined;
  readonly sort: string;
  readonly after: string | undefined;
  readonly limit: number;
}

/** Returns the list's parameters from the page's URL. */
export function pageQuery(sort: string): PageQuery {
  const { query } = location.value;
  return {
    text: query.get('q') ?? undefined,
    state: query.get('state') ?? undefined,
    sort: query.get('sort') ?? sort,
    after: query.get('after') ?? undefined,
    limit: rowsPerPage,
  };
}

/** Reads one page of a list. The previous rows of that list stay, marked as old, until the new ones arrive. */
export function usePage<Name extends ListName>(
  name: Name | undefined,
  filter: PageFilter,
  sort: string,
  options: ReadOptions = {},
) {
  const query = pageQuery(sort);
  const asked = { ...filter, ...query } as unknown as OperationInput<Name>;
  const read = useRead(name, asked, options) as ReadResult<OperationAnswer<Name> & Page>;
  const { data, failure, refresh } = read;
  const list = JSON.stringify([name, filter]);
  const at = moment();
  const last = useRef<
    | { readonly list: string; readonly at: string | undefined; readonly data: OperationAnswer<Name> & Page }
    | undefined
  >(undefined);
  if (data) last.current = { list, at, data };
  const before = last.current?.list === list ? last.current : undefined;
  // If the rows for a moment cannot be read, show none, because users would mistake another moment's rows for them.
  const shown = data ?? (failure && before?.at !== at ? undefined : before?.data);
  const pages: PageState = {
    sort: query.sort,
    total: shown?.total ?? shown?.items.length ?? 0,
    isFirst: query.after === undefined,
    next: shown?.next,
    isOld: data === undefined && failure === undefined,
    isOfOtherMoment: data === undefined && before?.at !== at,
  };
  return { data: shown, failure, refresh, pages };
}

export function organisationOption(organisation: string | undefined): string {
  return organisation === undefined ? '' : ` --org ${shellWord(organisation)}`;
}

/** Returns the CLI options for the current search, order and page. */
export function pageOptions(): string {
  const { query } = location.value;
  const text = query.get('q') ?? '';
  const sort = query.get('sort') ?? '';
  const state = query.get('state') ?? '';
  const cursor = query.get('after') ?? '';
  return [
    text === '' ? '' : ` --text ${shellWord(text)}`,
    state === '' ? '' : ` --state ${shellWord(state)}`,
    sort === '' ? '' : ` --sort=${shellWord(sort)}`,
    cursor === '' ? '' : ` --limit ${rowsPerPage} --after ${shellWord(cursor)}`,
  ].join('');
}
