/** The types and names that the parts of the fold share. */
import type { EventData, EventTypeName } from '../../schemas/events.ts';
import type { Tables } from './tables.ts';

/** The id under which the visitors' limits stand in the tier table. No tier may take it. */
export const anonymousTier = 'anonymous';

export interface EventContext {
  readonly seq: number;
  /** The commit's time, ms since 1970; 0 where it carries none that can be read. */
  readonly atMs: number;
  readonly by: string;
}

/** undefined: applied. A text: passed over, and why. */
export type Outcome = string | undefined;
export type Handlers = {
  readonly [Name in EventTypeName]: (tables: Tables, data: EventData<Name>, context: EventContext) => Outcome;
};

export function removeAll<Row>(rows: readonly Row[], remove: (row: Row) => void): void {
  for (const row of rows) remove(row);
}
