/**
 * Tables: sorted by a click on a column, searched, and windowed above 500 rows, so that ten thousand rows cost as much as
 * a screenful.
 */
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { count } from '../lib/format.ts';
import { location, setQuery } from '../lib/router.ts';
import { Empty } from './parts.tsx';

export interface TableColumn<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** What the column is sorted and searched by. */
  readonly value?: (row: Row) => string | number;
  readonly isNumber?: boolean;
  /** Shown as the heading of a row on narrow screens. */
  readonly isTitle?: boolean;
  readonly isAction?: boolean;
}

export interface TableProps<Row> {
  readonly caption: string;
  readonly rows: readonly Row[];
  readonly columns: readonly TableColumn<Row>[];
  readonly keyOf: (row: Row) => string;
  /** What to do where there is nothing. */
  readonly empty: ComponentChildren;
}

const searchFrom = 8;
const windowFrom = 500;
const rowHeight = 45;
const rowsAround = 60;
/** A region that scrolls must be reachable by keyboard. */
const scrollable = (name: string) => ({ tabIndex: 0, role: 'region', 'aria-label': name }) as const;

export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, empty } = props;
  const { query } = location.value;
  const text = query.get('q') ?? '';
  const found = sorted(searched(rows, columns, text), columns, query.get('sort') ?? '');
  if (rows.length === 0) return <>{empty}</>;
  return (
    <>
      {rows.length >= searchFrom || text !== '' ? (
        <Search text={text} shown={found.length} all={rows.length} />
      ) : null}
      {found.length === 0 ? (
        <Empty title={`Nothing contains “${text}”`}>
          <button type="button" class="button" onClick={() => setQuery({ q: '' })}>
            Clear the search
          </button>
        </Empty>
      ) : (
        <Rows {...props} rows={found} />
      )}
    </>
  );
}

function Search({
  text,
  shown,
  all,
}: {
  readonly text: string;
  readonly shown: number;
  readonly all: number;
}) {
  return (
    <div class="search">
      <input
        type="search"
        aria-label="Search this table"
        placeholder="Search"
        value={text}
        onInput={({ currentTarget }) => setQuery({ q: currentTarget.value })}
      />
      <span class="muted" role="status">
        {shown === all ? count(all) : `${count(shown)} of ${count(all)}`}
      </span>
    </div>
  );
}

function Rows<Row>({ caption, rows, columns, keyOf }: TableProps<Row>) {
  const [first, setFirst] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const isWindowed = rows.length > windowFrom;
  const start = isWindowed ? Math.max(0, Math.min(first, rows.length - 1) - rowsAround) : 0;
  const shown = isWindowed ? rows.slice(start, start + 3 * rowsAround) : rows;
  const onScroll = (): void => {
    const next = Math.floor((box.current?.scrollTop ?? 0) / rowHeight);
    if (Math.abs(next - first) > rowsAround / 2) setFirst(next);
  };
  const below = (rows.length - start - shown.length) * rowHeight;
  return (
    <div
      class={isWindowed ? 'table windowed' : 'table'}
      ref={box}
      onScroll={isWindowed ? onScroll : undefined}
      {...scrollable(caption)}
    >
      <table aria-rowcount={rows.length}>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.name} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {start > 0 ? <Spacer height={start * rowHeight} width={columns.length} /> : null}
          {shown.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td
                  key={column.name}
                  class={cellClass(column)}
                  data-name={column.isAction ? undefined : column.name}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {isWindowed && below > 0 ? <Spacer height={below} width={columns.length} /> : null}
        </tbody>
      </table>
    </div>
  );
}

function cellClass<Row>({ isNumber, isTitle, isAction }: TableColumn<Row>): string {
  return [isNumber && 'number', isTitle && 'title', isAction && 'action'].filter(Boolean).join(' ');
}

function Spacer({ height, width }: { readonly height: number; readonly width: number }) {
  return (
    <tr>
      <td colSpan={width} class="spacer" style={{ height: `${height}px` }} />
    </tr>
  );
}

function Heading<Row>({ column }: { readonly column: TableColumn<Row> }) {
  const { name, value, isNumber } = column;
  if (!value)
    return (
      <th scope="col" class={isNumber ? 'number' : ''}>
        {column.isAction ? <span class="visually-hidden">{name}</span> : name}
      </th>
    );
  const sort = location.value.query.get('sort') ?? '';
  const isUp = sort === name;
  const isDown = sort === `-${name}`;
  return (
    <th
      scope="col"
      class={isNumber ? 'number' : ''}
      aria-sort={isUp ? 'ascending' : isDown ? 'descending' : 'none'}
    >
      <button
        type="button"
        class="sort"
        onClick={() => setQuery({ sort: isUp ? `-${name}` : isDown ? '' : name })}
      >
        {name}
        <span aria-hidden="true">{isUp ? ' ↑' : isDown ? ' ↓' : ''}</span>
      </button>
    </th>
  );
}

function searched<Row>(
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

function sorted<Row>(
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
