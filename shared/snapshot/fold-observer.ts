/** What a fold reports to somebody who keeps the history of the rows. Called inside the transaction of the fold. */
import type { Commit } from '../../schemas/events/commit.ts';
import type { TableName, TableRow } from './tables.ts';

export interface FoldObserver {
  /** The changes that follow are made by event `index` of this commit. */
  event(commit: Commit, index: number): void;
  /** A row is written (`after`) or removed. The values are those that the database has. */
  changed(table: TableName, before: TableRow | undefined, after: TableRow | undefined): void;
  /** All events of the commit are folded; `digests` are those of the state after it. */
  committed(commit: Commit, digests: () => Record<TableName, string>): void;
}
