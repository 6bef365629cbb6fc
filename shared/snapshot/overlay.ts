/**
 * Maintains the overlay of an open change: the rows that differ from the base once the change's events are applied. These
 * events are folded by the same functions as committed events. The overlay is recomputed whenever the base or the change
 * moves, so it always fits the current base.
 */
import { type KnownEvent, readEvent } from '../../schemas/events/events.ts';
import type { Database } from '../runtime/sqlite.ts';
import { parseColumn, type SqlValue } from '../runtime/table-columns.ts';
import type { EventSkipReason } from './effect.ts';
import { openSlot } from './effects-changes.ts';
import { applyEvent } from './fold.ts';
import { Table, type Tables, type TableView, type TableViews, wellFormed } from './table.ts';
import {
  formatKey,
  type RowOf,
  splitKey,
  type TableName,
  type TableRow,
  type TableSpec,
  tableNames,
  tableSpecs,
} from './tables.ts';

/** Tables of definitions. Events that can be staged in a change write only to these tables. */
export const overlaidTables = [
  'tier',
  'tier_model',
  'model',
  'stack',
  'stack_model',
  'pool_model',
] as const satisfies readonly TableName[];

/** Tables whose changes require that the overlay be recomputed. */
const watchedTables: readonly TableName[] = ['change', ...overlaidTables];

function asJson(table: TableName, row: TableRow): string {
  const values = wellFormed(row);
  const columns = Object.keys(tableSpecs[table].columns);
  return JSON.stringify(Object.fromEntries(columns.map((column) => [column, values[column] ?? null])));
}

/** An in-memory layer above a base table. It contains the rows that events of a change have written. */
class OverlayTable<Name extends TableName> implements TableView<Name> {
  /** Written rows by key. undefined marks a removed row. */
  readonly written = new Map<string, RowOf<Name> | undefined>();
  readonly #name: Name;
  readonly #base: TableView<Name>;

  constructor(name: Name, base: TableView<Name>) {
    this.#name = name;
    this.#base = base;
  }

  get(...key: SqlValue[]): RowOf<Name> | undefined {
    const text = key.map(String).join('/');
    return this.written.has(text) ? this.written.get(text) : this.#base.get(...key);
  }

  where(column: keyof RowOf<Name> & string, value: SqlValue): RowOf<Name>[] {
    const own = [...this.written.values()].filter((row) => row !== undefined && row[column] === value);
    const rest = this.#base.where(column, value).filter((row) => !this.written.has(this.#keyOf(row)));
    return [...rest, ...(own as RowOf<Name>[])];
  }

  put(row: RowOf<Name>): undefined {
    this.written.set(this.#keyOf(row), row);
  }

  replace(_before: RowOf<Name> | undefined, row: RowOf<Name>): undefined {
    this.put(row);
  }

  update(row: RowOf<Name>, change: Partial<RowOf<Name>>): undefined {
    this.put({ ...row, ...change });
  }

  remove(row: RowOf<Name>): undefined {
    this.written.set(this.#keyOf(row), undefined);
  }

  /** Yields the written rows that differ from the base. */
  *differing(): Iterable<readonly [key: string, row: string | null]> {
    for (const [key, row] of this.written) {
      const before = this.#base.get(...splitKey(this.#name, key));
      const [was, is] = [before, row].map((each) => each && asJson(this.#name, each as TableRow));
      if (was !== is) yield [key, is ?? null];
    }
  }

  #keyOf(row: Partial<RowOf<Name>>): string {
    return formatKey(this.#name, row);
  }
}

type Overlays = { readonly [Name in TableName]: OverlayTable<Name> };

interface FoldedEvents {
  readonly tables: Overlays;
  /** For each skipped event, its type and the reason. */
  readonly passedOver: readonly string[];
}

/** Folds events on top of the base without writing to it. */
export function foldOver(base: TableViews, events: readonly KnownEvent[]): FoldedEvents {
  const tables = Object.fromEntries(
    tableNames.map((name) => [name, new OverlayTable(name, base[name])]),
  ) as unknown as Overlays;
  const passedOver: string[] = [];
  for (const event of events) {
    const reason = whyObsolete(tables, event) ?? applyEvent(tables, event, { seq: 0, atMs: 0, by: '' });
    if (reason !== undefined) passedOver.push(`${event.type}: ${reason}`);
  }
  return { tables, passedOver };
}

/** Returns why a staged event no longer applies, such as that its stack was removed, which the fold itself would accept. */
function whyObsolete(tables: TableViews, { type, data }: KnownEvent): EventSkipReason {
  if (type === 'stack.model_installed' && !tables.stack.get(data.stack)) return `no stack ${data.stack}`;
  const models =
    type === 'stack.model_installed' || type === 'pool.model_installed'
      ? [data.model]
      : (type === 'tier.set' || type === 'anonymous.set') && data.models !== '*'
        ? data.models
        : [];
  const lost = models.find((model) => !tables.model.get(model));
  return lost === undefined ? undefined : `no model ${lost}`;
}

/** Returns `table key` for each row that the events wrote, even if it equals the base row. */
export function rowsWritten(tables: Overlays): ReadonlySet<string> {
  return new Set(
    overlaidTables.flatMap((name) => [...tables[name].written.keys()].map((key) => `${name} ${key}`)),
  );
}

/** Opens the tables of a state, so that events can be folded over them with `foldOver`, which does not write to them. */
export function openTables(db: Database): TableViews {
  return Object.fromEntries(
    tableNames.map((name) => [name, new Table(db, name, 0n, { seq: 0 })]),
  ) as unknown as TableViews;
}

export function parseEvents(change: Pick<RowOf<'change'>, 'events'>): KnownEvent[] {
  return parseColumn(change.events).flatMap((stored) => {
    const read = readEvent(stored);
    return read.outcome === 'known' ? [read.event] : [];
  });
}

/** Recomputes the overlay of the open change, and writes only the overlay rows that differ from before. */
function settleOverlay(tables: TableViews): void {
  const change = tables.change.get(openSlot);
  const folded = change && foldOver(tables, parseEvents(change));
  for (const table of overlaidTables) writeOverlay(tables, table, new Map(folded?.tables[table].differing()));
  if (!change || !folded) return;
  const { length, 0: first = null } = folded.passedOver;
  if (length !== change.passed_over || first !== change.passed_over_reason)
    tables.change.update(change, { passed_over: length, passed_over_reason: first });
}

function writeOverlay(tables: TableViews, tbl: TableName, wanted: Map<string, string | null>): void {
  for (const row of tables.overlay.where('tbl', tbl)) {
    const is = wanted.get(row.key);
    if (is === row.row) wanted.delete(row.key);
    else if (is === undefined) tables.overlay.remove(row);
  }
  for (const [key, row] of wanted) tables.overlay.put({ tbl, key, row });
}

/** Keeps a snapshot's overlay up to date. Recomputes it only if a table that it depends on has changed. */
export class OverlayKeeper {
  readonly #tables: Tables;
  #settledAt = 0;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  settle(): void {
    const writes = this.#writes();
    if (writes === this.#settledAt) return;
    settleOverlay(this.#tables);
    this.#settledAt = this.#writes();
  }

  /** Makes the next `settle` recompute the overlay, because a rollback may have undone any of its rows. */
  forget(): void {
    this.#settledAt = -1;
  }

  #writes(): number {
    let writes = 0;
    for (const name of watchedTables) writes += this.#tables[name].writes;
    return writes;
  }
}

/**
 * Builds a SELECT in which overlay rows replace the table's own rows. `of` returns, for a table, its name or a SELECT.
 * `marks` are the table's mark columns. In an overlay row, they contain the number of the commit that staged the change.
 */
export function overlaidSelect(
  table: (typeof overlaidTables)[number],
  of: (table: TableName) => string,
  marks: readonly string[],
): string {
  const { columns, key } = tableSpecs[table];
  const names = Object.keys(columns);
  const text = key.map((column) => `b.${column}`).join(` || '/' || `);
  const overlay = of('overlay');
  const fromOverlay = [
    ...names.map((column) => `json_extract(o.row, '$.${column}')`),
    ...marks.map(() => `(SELECT c.staged_at FROM ${of('change')} c)`),
  ];
  const fromBase = [...names, ...marks].map((column) => `b.${column} AS ${column}`);
  return `SELECT ${fromBase.join(', ')} FROM ${of(table)} b
    WHERE NOT EXISTS (SELECT 1 FROM ${overlay} o WHERE o.tbl = '${table}' AND o.key = ${text})
    UNION ALL SELECT ${fromOverlay.join(', ')} FROM ${overlay} o WHERE o.tbl = '${table}' AND o.row IS NOT NULL`;
}

/** SQL that makes every read on the connection see the overlay's rows, until `hideOverlay` is executed. */
export const showOverlay = overlaidTables
  .map((table) => {
    const { marks = {} }: TableSpec = tableSpecs[table];
    const select = overlaidSelect(table, (name) => `main.${name}`, Object.keys(marks));
    return `CREATE TEMP VIEW ${table} AS ${select};`;
  })
  .join('\n');
export const hideOverlay = overlaidTables.map((table) => `DROP VIEW temp.${table};`).join('\n');
