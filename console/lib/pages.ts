/** Lists that the control plane searches, sorts and gives page after page; what is asked for stands in the address. */
import { useRef } from 'preact/hooks';
import type { AnswerOf, InputOf } from '../../schemas/admin/admin.ts';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { shellWord } from './format.ts';
import { type ReadOf, type ReadOptions, useRead } from './read.ts';
import { location } from './router.ts';
import { moment } from './travel.ts';

const rowsPerPage = 500;

/** The operations that give a list page after page. */
type ListName = {
  [Name in OperationName]: 'total' extends keyof AnswerOf<Name> ? Name : never;
}[OperationName];

interface Page {
  readonly items: readonly unknown[];
  readonly next?: string | undefined;
  readonly total?: number | undefined;
}

/** What a table shows of a list that is longer than itself. */
export interface PageState {
  readonly sort: string;
  /** Rows of all pages that are found. */
  readonly total: number;
  readonly isFirst: boolean;
  readonly next: string | undefined;
  /** The rows are those of before: what is asked for now is being read. */
  readonly isOld: boolean;
  /** They are of another moment, so none of them may be shown. */
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

/** The parameters of the page that the address asks for. */
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

/** One page. While another page, search or moment of the same list is read, the last one keeps its place, marked as old. */
export function usePage<Name extends ListName>(
  name: Name | undefined,
  filter: PageFilter,
  sort: string,
  options: ReadOptions = {},
) {
  const query = pageQuery(sort);
  const asked = { ...filter, ...query } as unknown as InputOf<Name>;
  const read = useRead(name, asked, options) as ReadOf<AnswerOf<Name> & Page>;
  const { data, failure, refresh } = read;
  const list = JSON.stringify([name, filter]);
  const at = moment();
  const last = useRef<
    | { readonly list: string; readonly at: string | undefined; readonly data: AnswerOf<Name> & Page }
    | undefined
  >(undefined);
  if (data) last.current = { list, at, data };
  const before = last.current?.list === list ? last.current : undefined;
  // Where a moment cannot be read, the rows of another would be taken for its own.
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

/** The same organisation for the command line. */
export function organisationOption(organisation: string | undefined): string {
  return organisation === undefined ? '' : ` --org ${shellWord(organisation)}`;
}

/** The same search and order for the command line. */
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
