/** Types that describe an event's effect: how it changes rows, how it can be undone, and which rows it explains. */
import type { CommandName, OperationInput } from '../../schemas/admin/admin.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import type { EventData } from '../../schemas/events/events.ts';
import type { Database } from '../runtime/sqlite.ts';
import { first } from '../runtime/statements.ts';
import type { SqlValue } from '../runtime/table-columns.ts';
import type { TableViews } from './table.ts';
import { type MarkOf, type RowOf, type TableName, tableSpecs } from './tables.ts';

/** Id of the row in the tier table that contains the limits on visitors. No real tier may use it. */
export const anonymousTier = 'anonymous';

export interface EventContext {
  readonly seq: number;
  /** Time of the commit in ms since 1970, or 0 if it cannot be parsed. */
  readonly atMs: number;
  readonly by: string;
}

/** Reason why an event was skipped, or undefined if it was applied. */
export type EventSkipReason = string | undefined;

/** Name of a table, followed by those mark columns of its rows that the event updates. */
type ExplainedRows = {
  [Table in TableName]: readonly [Table, ...MarkOf<Table>[]];
}[TableName];

export interface EventEffect<Name extends EventTypeName> {
  /** Applies the event. It must never throw, and must depend only on its arguments; see `fold.ts`. */
  fold(tables: TableViews, data: EventData<Name>, context: EventContext): EventSkipReason;
  /** Inverse of the event, or a text that says why it cannot be undone. null for an event that changes no rows. */
  readonly inverse: Inverse<EventData<Name>> | string | null;
  /** Table and mark columns that the event sets. An explanation that cites such a row also names the event that set it. */
  readonly explains: ExplainedRows | readonly [];
}
export type EventEffects = { readonly [Name in EventTypeName]: EventEffect<Name> };

export interface UndoCommand {
  readonly name: CommandName;
  readonly input: object;
}

export interface Inverse<Data> {
  /** Reads the rows that the event changed. The event can be undone only if they have not changed again since. */
  subject(db: Database, data: Data): unknown;
  /** Returns the command that undoes the event, a text that says why none can, or undefined if nothing needs undoing. */
  command(before: Database, data: Data): UndoCommand | string | undefined;
}

/** Builds an inverse. `subject` reads the rows that the event changed. `command` gets these rows as they were before it. */
export function inverse<Data, Subject>(
  subject: (db: Database, data: Data) => Subject,
  command: (was: Subject, data: Data) => UndoCommand | string | undefined,
): Inverse<Data> {
  return { subject, command: (before, data) => command(subject(before, data), data) };
}

export function undo<Name extends CommandName>(name: Name, input: OperationInput<Name>): UndoCommand {
  return { name, input };
}

export interface RowSource<Data> {
  /** Reads the row with this key as event data. Returns undefined if no such row exists or the event does not fit it. */
  at(db: Database, ...key: SqlValue[]): Data | undefined;
}

/** Builds a reader that converts a table's row back to the data of the event that would set it. */
export function rowSource<Table extends TableName, Data>(
  table: Table,
  data: (row: RowOf<Table>, db: Database) => Data | undefined,
): RowSource<Data> {
  // Select columns by name, because the table also has mark columns, which the data must not contain.
  const { columns, key } = tableSpecs[table];
  const where = key.map((column) => `${column} = ?`).join(' AND ');
  const select = `SELECT ${Object.keys(columns).join(', ')} FROM ${table} WHERE ${where}`;
  return {
    at: (db, ...values) => {
      const row = first<RowOf<Table>>(db, select, ...values);
      return row && data(row, db);
    },
  };
}

export function formatMoment(ms: number): string {
  return new Date(ms).toISOString();
}

export function removeAll<Row>(rows: readonly Row[], remove: (row: Row) => void): void {
  for (const row of rows) remove(row);
}
