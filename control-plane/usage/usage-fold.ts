/**
 * Effect of one row of the usage log on the totals, pure over `UsageState`. Each incarnation's rows count once, in the order
 * of their numbers: the next one is applied, an earlier one is a repeat, a later one is parked until the rows before it
 * arrive.
 */
import type { ReadUsageRow } from '../../schemas/records/usage.ts';
import type { UsageState } from './usage-state.ts';

/** Rows by result, since the store was opened. */
export interface FoldCounts {
  applied: number;
  /** Rows that were applied or parked before. */
  repeated: number;
  /** Repeats that differ from their row. This is an alarm: two writers share an incarnation, so some usage is not counted. */
  differing: number;
  /** Rows that arrived before earlier rows of their incarnation. This is an alarm. */
  parked: number;
  /** Missing rows that were skipped because too many later ones were parked. This is an alarm: their usage is not counted. */
  lost: number;
  /** Rows of a version that this build does not know. This is an alarm: their usage is not counted. */
  unread: number;
  /** Records that are not usage rows, and rows in a partition other than their incarnation's. */
  junk: number;
  /** Records without a valid MAC of the gateway token. This is an alarm: nothing in them is counted. */
  unsigned: number;
  wrong_mac: number;
}

export interface FoldOptions {
  /** Whether the log no longer has its first records. An unknown incarnation then begins at its first row kept. */
  readonly trimmedStart: boolean;
  /** Number of one incarnation's rows that may be parked. */
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

/** First number of an unknown incarnation. If some of its rows are parked, it waits for the rows before them. */
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

/** Applies the parked rows from `n` on, up to the next gap. */
function applyParked(state: UsageState, incarnation: string, n: number, counts: FoldCounts): void {
  for (let at = n; state.parkedOf(incarnation).count > 0; at++) {
    const row = state.parked(incarnation, at);
    if (!row) return;
    state.unpark(incarnation, at);
    apply(state, row, counts);
  }
}

/** Skips missing rows, which must not block all later ones. A skipped row is never counted, so none is counted twice. */
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
