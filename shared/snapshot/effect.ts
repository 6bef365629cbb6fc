/** Types for the effects of events: how an event changes rows, how it can be undone, and which rows it explains. */
import type { CommandName, OperationInput } from '../../schemas/admin/admin.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import type { EventData } from '../../schemas/events/events.ts';
import type { Database } from '../runtime/sqlite.ts';
import { first } from '../runtime/statements.ts';
import type { SqlValue } from '../runtime/table-columns.ts';
import type { TableViews } from './table.ts';
import { type MarkOf, type RowOf, type TableName, tableSpecs } from './tables.ts';

/** Tier ID that holds the visitors' limits. No real tier may use it. */
export const anonymousTier = 'anonymous';

export interface EventContext {
  readonly seq: number;
  /** Commit time in ms since 1970; 0 if it cannot be parsed. */
  readonly atMs: number;
  readonly by: string;
}

/** undefined if the event was applied; otherwise the reason for skipping it. */
export type EventSkipReason = string | undefined;

/** A table, followed by the marks of its rows that the event moves. */
type ExplainedRows = {
  [Table in TableName]: readonly [Table, ...MarkOf<Table>[]];
}[TableName];

export interface EventEffect<Name extends EventTypeName> {
  /** Applies the event. Must be total and pure; see fold.ts. */
  fold(tables: TableViews, data: EventData<Name>, context: EventContext): EventSkipReason;
  /** Undoes the event. A text says why that is not possible; null means that there is nothing to say. */
  readonly inverse: Inverse<EventData<Name>> | string | null;
  /** Table and marks that this event sets. An explanation step that depends on such a row names the event. */
  readonly explains: ExplainedRows | readonly [];
}
export type EventEffects = { readonly [Name in EventTypeName]: EventEffect<Name> };

export interface UndoCommand {
  readonly name: CommandName;
  readonly input: object;
}

export interface Inverse<Data> {
  /** Reads the event's subject. Undo requires that the subject is still as the event left it. */
  subject(db: Database, data: Data): unknown;
  /** Returns the command that undoes the event, a text if that is impossible, or undefined if there is nothing to undo. */
  command(before: Database, data: Data): UndoCommand | string | undefined;
}

/** Builds an inverse. `was` is the subject before the event. */
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
  /** Reads the row with this key. Undefined if there is no such row, or if the event does not apply to it. */
  at(db: Database, ...key: SqlValue[]): Data | undefined;
}

/** Converts a table's rows to the data of the event that sets them. */
export function rowSource<Table extends TableName, Data>(
  table: Table,
  data: (row: RowOf<Table>, db: Database) => Data | undefined,
): RowSource<Data> {
  // Select columns by name, because the table also contains marks.
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
