/**
 * Computes the time of records in an embedded log. It follows the monotonic clock that all processes on a machine share, so
 * that a process with a wrong wall clock cannot give records wrong times. Call it only in the transaction of an append.
 */
import type { Database, Statement } from '../../runtime/sqlite.ts';

export const logTimeSql = `
CREATE TABLE IF NOT EXISTS log_time (
  id INTEGER PRIMARY KEY CHECK (id = 0),
  at_ms INTEGER NOT NULL,         -- log time of the last record, ms since 1970
  monotonic_ms INTEGER NOT NULL,  -- time since boot at which it was appended
  off_since_ms INTEGER            -- monotonic time since which all writers' wall clocks differ
) STRICT;
`;

/** Largest difference in ms between a writer's wall clock and the log's time up to which the wall clock is used. */
const toleranceMs = 10_000;
/** Time in ms after which a differing wall clock is trusted, if nothing was appended or all clocks differed for that long. */
const heldMs = 60_000;

interface Row {
  readonly atMs: number;
  readonly monotonicMs: number;
  readonly offSinceMs: number | null;
}

export class LogTime {
  readonly #last: Statement;
  readonly #keep: Statement;
  readonly #monotonicMs: () => number;

  constructor(db: Database, nowMs: () => number) {
    this.#last = db.prepare(
      'SELECT at_ms AS atMs, monotonic_ms AS monotonicMs, off_since_ms AS offSinceMs FROM log_time',
    );
    this.#keep = db.prepare(
      'INSERT OR REPLACE INTO log_time (id, at_ms, monotonic_ms, off_since_ms) VALUES (0, ?, ?, ?)',
    );
    this.#monotonicMs = nowMs;
  }

  /** Returns the time for records that are appended now by a process with this wall clock. */
  next(wallMs: number): number {
    const nowMs = this.#monotonicMs();
    const last = this.#last.get() as Row | undefined;
    const offSinceMs = last && clockOffSince(last, wallMs, nowMs);
    const isHeld = last !== undefined && typeof offSinceMs === 'number' && nowMs - offSinceMs <= heldMs;
    const atMs = isHeld ? last.atMs + nowMs - last.monotonicMs : wallMs;
    this.#keep.run(atMs, nowMs, isHeld ? offSinceMs : null);
    return atMs;
  }
}

/** Monotonic time since which writers' wall clocks have differed from the log's. Undefined if this writer's clock agrees. */
function clockOffSince(
  { atMs, monotonicMs, offSinceMs }: Row,
  wallMs: number,
  nowMs: number,
): number | undefined {
  const elapsedMs = nowMs - monotonicMs;
  // The machine has restarted or nothing was appended for a long time, so the wall clock decides.
  if (elapsedMs < 0 || elapsedMs > heldMs) return undefined;
  if (Math.abs(wallMs - atMs - elapsedMs) <= toleranceMs) return undefined;
  return offSinceMs ?? nowMs;
}
