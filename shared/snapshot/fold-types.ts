/** The types and names that the parts of the fold share. */
import type { EventTypeName } from '../../schemas/event-definitions.ts';
import type { EventData } from '../../schemas/events.ts';
import type { TableViews } from './table.ts';

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
export type Handlers = {
  readonly [Name in EventTypeName]: (
    tables: TableViews,
    data: EventData<Name>,
    context: EventContext,
  ) => EventSkipReason;
};

export function removeAll<Row>(rows: readonly Row[], remove: (row: Row) => void): void {
  for (const row of rows) remove(row);
}
