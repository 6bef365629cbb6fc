/**
 * Row log of a data folder: usage rows in segment files. The main thread appends to the log, and the usage worker reads it.
 * No other file stores the rows. `outbox.db` stores only how far they have been counted and shipped.
 */
import { join } from 'node:path';
import { dayMs } from '../../schemas/durations.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { SegmentLog } from './segment-log.ts';

/** Size of a segment in bytes: twice the size of all rows that may wait for the database. */
const segmentBytes = 2 * 1024 * 1024;
const bytesMax = 1024 * 1024 * 1024;

/** Identifies the database that counts the rows in a segment, and the process that wrote them. */
export interface RowsHeading {
  /** Id of the database that counts the rows (`outbox.db`). */
  readonly database: string;
  /** Id of the process start during which the rows were recorded. */
  readonly incarnation: string;
}

/** Place at which a process must continue the row log. */
export interface LogStart {
  readonly folder: string;
  readonly heading: RowsHeading;
  /** Lowest position that the next row may have. */
  readonly from: number;
}

export interface UsageGroup {
  /** Usage rows as JSON, each followed by a comma and a line break. */
  readonly rows: string;
  readonly count: number;
}

export function usageFolderOf(outboxPath: string): string {
  return join(outboxPath, '..', 'usage');
}

/**
 * Opens the row log for appending. Segments whose rows are all on the usage log are removed once they are a day old, or when
 * the row log is too large. `keptFrom` returns the position from which rows must be kept.
 */
export function openUsageLog({ folder, heading, from }: LogStart, keptFrom: () => number): SegmentLog {
  const options = { heading: JSON.stringify(heading), from, keptFrom, segmentBytes, bytesMax };
  return new SegmentLog(folder, { ...options, ageMsMax: dayMs, isAllocated: true, isDeflated: false });
}

const encoder = new TextEncoder();

export function append(log: SegmentLog, { rows, count }: UsageGroup): Promise<void> {
  const group = { count, lastMs: wallClockMs(), ids: new Uint8Array(), text: encoder.encode(rows) };
  return log.append(group, performance.now());
}

/** Parses the heading of a segment. Returns undefined if the text is not a heading. */
export function headingIn(text: string): RowsHeading | undefined {
  try {
    return JSON.parse(text) as RowsHeading;
  } catch {
    return undefined;
  }
}
