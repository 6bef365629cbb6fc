/**
 * Folds rows of the usage log into the totals, and reads and writes only through `UsageState`. Rows of one incarnation are
 * numbered, and each counts once, in order: the next row is applied, an earlier one is a repeat, and a later one is parked
 * until the rows before it arrive.
 */
import type { ReadUsageRow } from '../../schemas/records/usage.ts';
import type { UsageState } from './usage-state.ts';

/** Number of rows by result since the store was opened. */
export interface FoldCounts {
  applied: number;
  /** Rows that had already been applied or parked. */
  repeated: number;
  /** Repeats that differ from the original row. Alarm: two writers share an incarnation, so some usage is not counted. */
  differing: number;
  /** Rows that arrived before earlier rows of their incarnation. Alarm. */
  parked: number;
  /** Missing rows that were skipped because too many later ones were parked. Alarm: their usage is not counted. */
  lost: number;
  /** Rows of a version that this build does not know. Alarm: their usage is not counted. */
  unread: number;
  /** Records that are not usage rows, and rows in a partition that does not belong to their incarnation. */
  junk: number;
  /** Records without a MAC made with the gateway token. Alarm: nothing in them is counted. */
  unsigned: number;
  wrong_mac: number;
}

export interface FoldOptions {
  /** Whether the log has lost its first records. Then an unknown incarnation begins at the first row that is found. */
  readonly trimmedStart: boolean;
  /** Maximum number of parked rows per incarnation. */
  readonly parkedMax: number;
}

export function foldRow(
  state: UsageState,
  row: ReadUsageRow,
  options: FoldOptions,
  counts: FoldCounts,
): 'applied' | 'repeated' | 'parked' {
  const { incarnation, n } = row;
  const mark = state.mark(incarnation);
  const next = mark ? mark.n + 1 : firstOf(state, row, options);
  if (n < next) {
    const applied = mark?.hashAt(n);
    if (applied !== undefined && applied !== state.hash(row.text)) counts.differing++;
    else counts.repeated++;
    return 'repeated';
  }
  if (n > next) {
    park(state, row, counts);
    skipMissing(state, incarnation, options, counts);
    return 'parked';
  }
  apply(state, row, counts);
  applyParked(state, incarnation, n + 1, counts);
  return 'applied';
}

/** Returns the number of an unknown incarnation's first row: `n` if the log was trimmed and no row is parked, else 1. */
function firstOf(state: UsageState, { incarnation, n }: ReadUsageRow, options: FoldOptions): number {
  return options.trimmedStart && state.parkedOf(incarnation).count === 0 ? n : 1;
}

function apply(state: UsageState, { incarnation, n, text, row }: ReadUsageRow, counts: FoldCounts): void {
  if (row) {
    state.count(row);
    counts.applied++;
  } else counts.unread++;
  state.setMark(incarnation, n, text);
}

function park(state: UsageState, row: ReadUsageRow, counts: FoldCounts): void {
  const there = state.parked(row.incarnation, row.n);
  if (there === undefined) {
    state.park(row);
    counts.parked++;
  } else if (there.text === row.text) counts.repeated++;
  else counts.differing++;
}

/** Applies consecutive parked rows from number `n` on. */
function applyParked(state: UsageState, incarnation: string, n: number, counts: FoldCounts): void {
  for (let at = n; state.parkedOf(incarnation).count > 0; at++) {
    const row = state.parked(incarnation, at);
    if (!row) return;
    state.unpark(incarnation, at);
    apply(state, row, counts);
  }
}

/** Skips missing rows, because they must not block later ones for ever. A skipped row never counts, so none counts twice. */
function skipMissing(
  state: UsageState,
  incarnation: string,
  { parkedMax }: FoldOptions,
  counts: FoldCounts,
): void {
  const { count, lowest } = state.parkedOf(incarnation);
  if (count <= parkedMax || lowest === null) return;
  const before = state.mark(incarnation)?.n ?? 0;
  counts.lost += lowest - before - 1;
  state.setMark(incarnation, lowest - 1, null);
  applyParked(state, incarnation, lowest, counts);
}
