/**
 * The hash of commits and of what each did to the rows, from the first one on: it is stored for each span, so that a file in
 * which a version, the end of one or a commit was changed is found.
 */
import { createHash } from 'node:crypto';
import { addDigest, hex128, rowDigest, type TableName, type TableRow } from '../../shared/snapshot/tables.ts';

/** A commit as its row has it. */
export interface HistoryCommit {
  readonly seq: number;
  readonly at: string;
  readonly clock_ms: number;
  readonly author: string;
  readonly why: string | null;
  readonly command: string;
  readonly kind: string;
  readonly events: string;
  readonly signers: string | null;
}

/** `changes` is the sum of the digests of its changes. */
export function chainCommit(before: string, commit: HistoryCommit, changes: bigint): string {
  const { seq, at, clock_ms, author, why, command, kind, events, signers } = commit;
  const values = [before, seq, at, clock_ms, author, why, command, kind, events, signers, hex128(changes)];
  return createHash('sha256').update(JSON.stringify(values)).digest('hex');
}

/** Adds one change to a sum. `key` is that of the row, as text. */
export function addChange(sum: bigint, table: TableName, key: string, after: TableRow | undefined): bigint {
  if (after) return addDigest(sum, rowDigest(table, after));
  const removed = createHash('sha256')
    .update(JSON.stringify(['removed', table, key]))
    .digest('hex');
  return addDigest(sum, BigInt(`0x${removed.slice(0, 32)}`));
}
