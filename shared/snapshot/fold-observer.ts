/**
 * Receives every step of a fold. The history uses it to record row versions. It is called inside the fold's transaction,
 * which may still be rolled back.
 */
import type { Commit } from '../../schemas/events/commit.ts';
import type { TableName, TableRow } from './tables.ts';

export interface FoldObserver {
  /** Announces that the next changes come from event `index` of this commit. */
  event(commit: Commit, index: number): void;
  /** Reports a row that was written (`after`) or removed. Values are as stored in the database. */
  changed(table: TableName, before: TableRow | undefined, after: TableRow | undefined): void;
  /** Reports that all events of the commit are folded. `digests` returns those of the state after it. */
  committed(commit: Commit, digests: () => Record<TableName, string>): void;
}
