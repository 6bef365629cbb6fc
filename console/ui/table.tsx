/**
 * Sortable and searchable tables. The control plane sorts and searches lists that are read in pages; the browser does so for
 * all others. Long tables are virtualised, so that only about a screenful of rows is drawn.
 */
import { Component, type ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { withQuery } from '../lib/api.ts';
import { count } from '../lib/format.ts';
import type { PageState } from '../lib/pages.ts';
import { location, setQuery } from '../lib/router.ts';
import { Button, Empty } from './parts.tsx';

export interface TableColumn<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Value by which rows are sorted and searched if all of them are in the browser. */
  readonly value?: (row: Row) => string | number;
  /** Name of the field by which the control plane sorts a list that is read in pages. */
  readonly field?: string;
  readonly isNumber?: boolean;
  /** Whether the cell becomes the heading of its row on narrow screens. */
  readonly isTitle?: boolean;
  readonly isAction?: boolean;
  /** CSS class of the column's heading and cells. */
  readonly look?: string;
}

/** Returns a column of numbers, which is sorted by number. */
export function numberColumn<Row>(
  name: string,
  value: (row: Row) => number,
  cell: (row: Row) => ComponentChildren = (row) => count(value(row)),
): TableColumn<Row> {
  return { name, isNumber: true, value, cell };
}

export interface TableProps<Row> {
  readonly caption: string;
  readonly rows: readonly Row[];
  readonly columns: readonly TableColumn<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Content to show if the list is empty, with advice on what to do. */
  readonly empty: ComponentChildren;
  /** Paging state. Present if the rows are one page of a list. */
  readonly pages?: PageState;
  /** States by which the user can filter the list. */
  readonly states?: readonly string[];
  /** Whether rows never change after they have been drawn. */
  readonly isFinal?: boolean;
  /** Key of the row that is shown in full elsewhere on the page. */
  readonly openKey?: string | undefined;
  /** Called when the reader scrolls away from the first rows, and when they return to them. */
  readonly onTop?: (isAtTop: boolean) => void;
}

const searchFrom = 8;
const windowFrom = 100;
/** Height of a row in pixels, assumed until rows have been drawn and measured. */
const rowHeightGuess = 49;
/** Minimum number of rows to draw above and below the visible ones. Visible rows fill up to three quarters of the window. */
const rowsAroundMin = 20;
const shareOfWindow = 0.75;
/** Returns the attributes of a scrolling region, which must be reachable by keyboard. */
const scrollable = (name: string) => ({ tabIndex: 0, role: 'region', 'aria-label': name }) as const;

export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, empty, pages, states } = props;
  const { query } = location.value;
  const text = query.get('q') ?? '';
  const found = pages ? rows : sortRows(searchRows(rows, columns, text), columns, query.get('sort') ?? '');
  const state = (states && query.get('state')) ?? '';
  const isWhole = text === '' && state === '' && pages?.isFirst !== false;
  if (rows.length === 0 && isWhole) return <>{empty}</>;
  const all = pages?.total ?? rows.length;
  return (
    <>
      {all >= searchFrom || !isWhole ? (
        <Search
          text={text}
          found={pages?.isOfOtherMoment ? undefined : countText(found.length, all)}
          state={state}
          states={states}
        />
      ) : null}
      {found.length === 0 ? <NothingFound text={text} state={state} /> : <Rows {...props} rows={found} />}
      {pages ? <Pager {...pages} caption={props.caption} /> : null}
    </>
  );
}

function NothingFound({ text, state }: { readonly text: string; readonly state: string }) {
  const filters = [text === '' ? '' : `contains “${text}”`, state === '' ? '' : `is ${state}`];
  const what = filters.filter(Boolean).join(' and ');
  return (
    <Empty title={what === '' ? 'This page is now empty' : `Nothing ${what}`}>
      <Button onClick={() => setQuery({ q: '', state: '', after: '' })}>
        {what === '' ? 'First page' : 'Clear search'}
      </Button>
    </Empty>
  );
}

/** Links to the first and the next page. They are links, so that the browser's back and forward buttons work. */
function Pager({ caption, isFirst, next }: PageState & { readonly caption: string }) {
  if (isFirst && next === undefined) return null;
  const { path, query } = location.value;
  const to = (after: string | undefined): string =>
    withQuery(path, { ...Object.fromEntries(query), after: after ?? '' });
  return (
    <nav class="pager row" aria-label={`Pages of ${caption}`}>
      {isFirst ? null : (
        <a class="button" href={to(undefined)}>
          First page
        </a>
      )}
      {next === undefined ? (
        <span class="muted">This is the last page.</span>
      ) : (
        <a class="button" href={to(next)}>
          Next page
        </a>
      )}
    </nav>
  );
}

function countText(shown: number, all: number): string {
  return shown === all ? count(all) : `${count(shown)} of ${count(all)}`;
}

interface SearchProps {
  readonly text: string;
  /** Number of matching rows as text, or undefined if it is not known yet. */
  readonly found: string | undefined;
  readonly state: string;
  readonly states: readonly string[] | undefined;
}

function Search({ text, found, state, states }: SearchProps) {
  return (
    <div class="search row">
      <input
        type="search"
        aria-label="Search this table"
        placeholder="Search"
        value={text}
        onInput={({ currentTarget }) => setQuery({ q: currentTarget.value, after: '' })}
      />
      {states ? (
        <select
          aria-label="State"
          value={state}
          onChange={({ currentTarget }) => setQuery({ state: currentTarget.value, after: '' })}
        >
          <option value="">Any state</option>
          {states.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      ) : null}
      <span class="muted" role="status">
        {found}
      </span>
    </div>
  );
}

/** Table without a search field. */
export function Rows<Row>(props: TableProps<Row>) {
  const { caption, rows, columns, keyOf, pages, openKey, onTop, isFinal = false } = props;
  const [first, setFirst] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const isWindowed = rows.length > windowFrom;
  const [rowHeight, measure] = useState(rowHeightGuess);
  const rowsAround = Math.max(rowsAroundMin, Math.ceil((shareOfWindow * innerHeight) / rowHeight));
  const start = isWindowed ? Math.max(0, Math.min(first, rows.length - 1) - rowsAround) : 0;
  useRowHeight(body, rows, start, rowHeight, measure);
  const shown = isWindowed ? rows.slice(start, start + 3 * rowsAround) : rows;
  const onScroll = (): void => {
    const scrolled = box.current?.scrollTop ?? 0;
    onTop?.(scrolled < rowHeight);
    const next = Math.floor(scrolled / rowHeight);
    if (Math.abs(next - first) > rowsAround / 2) setFirst(next);
  };
  const below = (rows.length - start - shown.length) * rowHeight;
  return (
    <div
      class={['table', isWindowed && 'windowed', pages?.isOfOtherMoment && 'blank'].filter(Boolean).join(' ')}
      aria-busy={pages?.isOld}
      ref={box}
      onScroll={isWindowed || onTop ? onScroll : undefined}
      {...scrollable(caption)}
    >
      <table aria-rowcount={(pages?.total ?? rows.length) + 1}>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.name} column={column} pages={pages} />
            ))}
          </tr>
        </thead>
        <tbody
          ref={body}
          aria-hidden={pages?.isOfOtherMoment}
          onClickCapture={pages?.isOfOtherMoment ? blockEvent : undefined}
        >
          {start > 0 ? <Spacer height={start * rowHeight} /> : null}
          {shown.map((row, index) => (
            <tr
              key={keyOf(row)}
              class={openKey !== undefined && keyOf(row) === openKey ? 'opened-row' : undefined}
              aria-rowindex={isWindowed ? start + index + 2 : undefined}
            >
              <Cells row={row} columns={columns} isFinal={isFinal} />
            </tr>
          ))}
          {isWindowed && below > 0 ? <Spacer height={below} /> : null}
        </tbody>
      </table>
    </div>
  );
}

interface CellsProps<Row> {
  readonly row: Row;
  readonly columns: readonly TableColumn<Row>[];
  readonly isFinal: boolean;
}

/** Cells of one row. If rows are final, existing rows are not drawn again when others are added above them. */
class Cells<Row> extends Component<CellsProps<Row>> {
  override shouldComponentUpdate({ row, columns, isFinal }: CellsProps<Row>, state: unknown): boolean {
    const { props } = this;
    // Compare the state, too, because a change of a signal that a cell reads updates the state.
    return !isFinal || row !== props.row || columns !== props.columns || state !== this.state;
  }

  render({ row, columns }: CellsProps<Row>) {
    return columns.map((column) => (
      <td key={column.name} class={cellClass(column)} data-name={column.isAction ? undefined : column.name}>
        {column.cell(row)}
      </td>
    ));
  }
}

/** Blocks clicks and keys on stale rows, which are hidden but still receive events. */
function blockEvent(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}

/** Measures the height of the drawn rows whenever the rows change. */
function useRowHeight(
  body: { readonly current: HTMLTableSectionElement | null },
  rows: readonly unknown[],
  start: number,
  height: number,
  setHeight: (height: number) => void,
): void {
  useLayoutEffect(() => {
    const drawn = [...(body.current?.rows ?? [])].filter(({ ariaRowIndex }) => ariaRowIndex !== null);
    const [top, bottom] = [drawn[0]?.getBoundingClientRect(), drawn.at(-1)?.getBoundingClientRect()];
    if (!top || !bottom) return;
    const measured = (bottom.bottom - top.top) / drawn.length;
    if (measured > 0 && Math.abs(measured - height) > 0.5) setHeight(measured);
    // The height is not measured on every render, because measuring forces the browser to compute the layout at once.
  }, [rows, start]);
}

function cellClass<Row>({ isTitle, isAction, ...column }: TableColumn<Row>): string {
  return [headingClass(column), isTitle && 'title', isAction && 'action'].filter(Boolean).join(' ');
}

function headingClass({ isNumber, look }: Pick<TableColumn<unknown>, 'isNumber' | 'look'>): string {
  return [isNumber && 'number', look].filter(Boolean).join(' ');
}

/** Reserves the height of undrawn rows. Has one cell, because a cell across all columns would give hidden columns a width. */
function Spacer({ height }: { readonly height: number }) {
  return (
    <tr>
      <td class="spacer" style={{ height: `${height}px` }} />
    </tr>
  );
}

interface HeadingProps<Row> {
  readonly column: TableColumn<Row>;
  readonly pages: PageState | undefined;
}

function Heading<Row>({ column, pages }: HeadingProps<Row>) {
  const { name } = column;
  const sortedBy = pages ? column.field : column.value && name;
  if (sortedBy === undefined)
    return (
      <th scope="col" class={headingClass(column)}>
        {column.isAction ? <span class="visually-hidden">{name}</span> : name}
      </th>
    );
  const sort = pages?.sort ?? location.value.query.get('sort') ?? '';
  const isUp = sort === sortedBy;
  const isDown = sort === `-${sortedBy}`;
  return (
    <th
      scope="col"
      class={headingClass(column)}
      aria-sort={isUp ? 'ascending' : isDown ? 'descending' : 'none'}
    >
      <button
        type="button"
        class="sort"
        onClick={() =>
          setQuery({ sort: isUp ? `-${sortedBy}` : isDown && !pages ? '' : sortedBy, after: '' })
        }
      >
        {name}
        <span aria-hidden="true">{isUp ? ' ↑' : isDown ? ' ↓' : ''}</span>
      </button>
    </th>
  );
}

function searchRows<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  text: string,
): readonly Row[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return rows;
  return rows.filter((row) =>
    columns.some(({ value }) => value && String(value(row)).toLowerCase().includes(wanted)),
  );
}

function sortRows<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  sort: string,
): readonly Row[] {
  const value = columns.find(({ name }) => name === sort.replace(/^-/, ''))?.value;
  if (!value) return rows;
  const way = sort.startsWith('-') ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    return way * (left < right ? -1 : left > right ? 1 : 0);
  });
}
