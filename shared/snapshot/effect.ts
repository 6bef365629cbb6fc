/** What an event does to the state, and what follows from that: the second half of its definition (`schemas/events-*.ts`). */
import type { CommandName, InputOf } from '../../schemas/admin/admin.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import type { EventData } from '../../schemas/events/events.ts';
import type { Database } from '../runtime/sqlite.ts';
import { first } from '../runtime/statements.ts';
import type { SqlValue } from '../runtime/table-columns.ts';
import type { TableViews } from './table.ts';
import { type MarkOf, type RowOf, type TableName, tableSpecs } from './tables.ts';

/** The id of the visitors' limits in the tier table. No tier may have it. */
export const anonymousTier = 'anonymous';

export interface EventContext {
  readonly seq: number;
  /** The commit's time, ms since 1970; 0 where it has none that can be parsed. */
  readonly atMs: number;
  readonly by: string;
}

/** undefined: applied. A text: skipped, and why. */
export type EventSkipReason = string | undefined;

/** A table, and the marks of its rows that the event moves. */
type Explains = {
  [Table in TableName]: readonly [Table, ...MarkOf<Table>[]];
}[TableName];

export interface EventEffect<Name extends EventTypeName> {
  /** Total and pure, see fold.ts. */
  fold(tables: TableViews, data: EventData<Name>, context: EventContext): EventSkipReason;
  /** A text: why there is none; null where nothing more can be said. */
  readonly inverse: Inverse<EventData<Name>> | string | null;
  /** The step of an explanation that depends on such a row names this event. */
  readonly explains: Explains | readonly [];
}
export type EventEffects = { readonly [Name in EventTypeName]: EventEffect<Name> };

export interface UndoCommand {
  readonly name: CommandName;
  readonly input: object;
}

export interface Inverse<Data> {
  /** What the event is about; it must be now as it was after the event. */
  subject(db: Database, data: Data): unknown;
  /** A text: why there is none. undefined: there is nothing to take back. */
  command(before: Database, data: Data): UndoCommand | string | undefined;
}

/** `was`: what the event is about, before it. */
export function inverse<Data, Subject>(
  subject: (db: Database, data: Data) => Subject,
  command: (was: Subject, data: Data) => UndoCommand | string | undefined,
): Inverse<Data> {
  return { subject, command: (before, data) => command(subject(before, data), data) };
}

export function undo<Name extends CommandName>(name: Name, input: InputOf<Name>): UndoCommand {
  return { name, input };
}

export interface RowSource<Data> {
  /** Reads the row with this key. Undefined if there is no row, or if the event does not apply to it. */
  at(db: Database, ...key: SqlValue[]): Data | undefined;
}

/** Converts rows of a table to data of the event that sets them. */
export function rowSource<Table extends TableName, Data>(
  table: Table,
  data: (row: RowOf<Table>, db: Database) => Data | undefined,
): RowSource<Data> {
  // Columns by name, because the table also has marks.
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

export function momentOf(ms: number): string {
  return new Date(ms).toISOString();
}

export function removeAll<Row>(rows: readonly Row[], remove: (row: Row) => void): void {
  for (const row of rows) remove(row);
}
