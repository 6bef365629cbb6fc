/** What an event does to the state, and what follows from that: the second half of its definition (`schemas/events-*.ts`). */
import type { CommandName, InputOf } from '../../schemas/admin.ts';
import type { EventTypeName } from '../../schemas/event-definitions.ts';
import type { EventData } from '../../schemas/events.ts';
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
  /** The rows of a snapshot that this event restores on a new log. */
  readonly restore: RowSource<EventData<Name>> | 'leaves no row' | 'is reported again';
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

/** Data of an event, with the time and the author of its row where the row has them. */
export interface RestoredData<Data> {
  readonly data: Data;
  readonly atMs: number | undefined;
  readonly by: string | undefined;
}

export interface RowSource<Data> {
  /** In the order of their time and author, else of their key. */
  all(db: Database): Iterable<RestoredData<Data>>;
  /** Of the row with this key. */
  at(db: Database, ...key: SqlValue[]): Data | undefined;
}

interface Stamp<Table extends TableName> {
  readonly at: keyof RowOf<Table> & string;
  readonly by?: keyof RowOf<Table> & string;
}

/**
 * The event that makes a row what it is. `data`: undefined where a row needs no such event. `stamp`: the columns that are the
 * time and the author of its commit; a row without that time makes no event.
 */
export function rowsOf<Table extends TableName, Data>(
  table: Table,
  data: (row: RowOf<Table>, db: Database) => Data | undefined,
  stamp?: Stamp<Table>,
): RowSource<Data> {
  // By name: marks say where in the old log a row was set.
  const select = `SELECT ${Object.keys(tableSpecs[table].columns).join(', ')} FROM ${table}`;
  const { key } = tableSpecs[table];
  const order = stamp ? `ORDER BY ${[stamp.at, stamp.by ?? stamp.at, ...key].join(', ')}` : '';
  return {
    *all(db) {
      for (const row of db.prepare<[], RowOf<Table>>(`${select} ${order}`).iterate()) {
        const found = data(row, db);
        if (found === undefined) continue;
        const { at, by } = stamp ?? {};
        const atMs = at && (row[at] as number | null);
        if (atMs !== null) yield { data: found, atMs, by: by && String(row[by]) };
      }
    },
    at: (db, ...values) => {
      const where = key.map((column) => `${column} = ?`).join(' AND ');
      const row = first<RowOf<Table>>(db, `${select} WHERE ${where}`, ...values);
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
