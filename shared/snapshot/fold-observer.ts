/** Observes each step of a fold inside its transaction, which may roll back. The history records row versions this way. */
import type { Commit } from '../../schemas/events/commit.ts';
import type { TableName, TableRow } from './tables.ts';

export interface FoldObserver {
  /** Announces that the following row changes come from event `index` of this commit. */
  event(commit: Commit, index: number): void;
  /** Reports a row that was written or, if `after` is undefined, removed. Values are as stored in the database. */
  changed(table: TableName, before: TableRow | undefined, after: TableRow | undefined): void;
  /** Reports that all events of the commit are folded. `digests` returns the digests of the resulting state. */
  committed(commit: Commit, digests: () => Record<TableName, string>): void;
}
