/** Layout of a whole page. It shows a heading, followed by the data, a loading indicator or a failure. */
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { type ApiFailure, withQuery } from '../lib/api.ts';
import type { PageState } from '../lib/pages.ts';
import { location } from '../lib/router.ts';
import { hasPast, moment } from '../lib/travel.ts';
import { MomentChip, PastNotice } from './moment.tsx';
import { Copy, Failure, Loading } from './parts.tsx';
import { Table, type TableProps } from './table.tsx';

export interface HeaderProps {
  readonly title: string;
  readonly lead?: ComponentChildren;
  /** CLI command that shows the same data, if there is one. */
  readonly cli?: string;
  readonly children?: ComponentChildren;
}

export function PageHeader({ title, lead, cli, children }: HeaderProps) {
  useEffect(() => {
    document.title = `${title} · Headgate`;
  }, [title]);
  const isAnyMoment = hasPast(location.value.path);
  return (
    <>
      <header class="page-header row">
        <div>
          <h1>{title}</h1>
          {lead === undefined ? null : <p class="lead muted">{lead}</p>}
        </div>
        <div class="row">
          {isAnyMoment ? <MomentChip /> : null}
          {cli === undefined ? null : <Copy text={cli} label="Copy as CLI" icon="terminal" />}
          {children}
        </div>
      </header>
      {isAnyMoment ? <PastNotice /> : null}
    </>
  );
}

interface Reading<T> {
  readonly data: T | undefined;
  readonly failure: ApiFailure | undefined;
  refresh(): void;
}

export interface AnswerProps<T> {
  readonly of: Reading<T>;
  readonly children: (data: T) => ComponentChildren;
  /** Content to show if the data cannot be read. */
  readonly otherwise?: ComponentChildren;
}

export function Answer<T>({ of: { data, failure, refresh }, children, otherwise }: AnswerProps<T>) {
  return (
    <>
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data !== undefined ? children(data) : failure ? otherwise : <Loading />}
    </>
  );
}

export interface ListPageProps<Row> extends Omit<TableProps<Row>, 'caption' | 'rows' | 'pages'> {
  readonly title: string;
  readonly lead: ComponentChildren;
  readonly cli: string;
  readonly list: Reading<{ readonly items: readonly Row[] }> & { readonly pages?: PageState };
  readonly actions?: ComponentChildren;
  readonly children?: ComponentChildren;
}

export function ListPage<Row>(props: ListPageProps<Row>) {
  const { title, lead, cli, list, actions, children, ...table } = props;
  const pages = list.pages && { pages: list.pages };
  return (
    <>
      <PageHeader title={title} lead={lead} cli={cli}>
        {actions}
      </PageHeader>
      <Answer of={list}>{({ items }) => <Table caption={title} rows={items} {...pages} {...table} />}</Answer>
      {children}
    </>
  );
}

export interface ThingPageProps<T> extends AnswerProps<T> {
  readonly title: string;
  /** Path and text of the link to the page that lists all things of the same kind, such as all nodes. */
  readonly list: readonly [path: string, text: string];
  readonly cli: string;
  readonly actions?: ComponentChildren;
}

export function ThingPage<T>({ title, list: [path, text], cli, actions, ...answer }: ThingPageProps<T>) {
  return (
    <>
      <PageHeader title={title} lead={<a href={withQuery(path, { at: moment() })}>{text}</a>} cli={cli}>
        {actions}
      </PageHeader>
      <Answer {...answer} />
    </>
  );
}
