/**
 * A data folder's log of usage rows, in segments that the main thread appends to and the usage worker reads. It is the only
 * place that stores rows; `outbox.db` stores how far they were counted and shipped.
 */
import { join } from 'node:path';
import { dayMs } from '../../schemas/durations.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { SegmentLog } from './segment-log.ts';

/** Twice as much as the rows that may wait for the database need at most. */
const segmentBytes = 2 * 1024 * 1024;
const bytesMax = 1024 * 1024 * 1024;

/** Origin of a segment's rows. */
export interface RowsHeading {
  /** Id of `outbox.db`. */
  readonly database: string;
  /** Id of the process start that recorded them. */
  readonly incarnation: string;
}

/** Place from which on a process writes to the log. */
export interface LogStart {
  readonly folder: string;
  readonly heading: RowsHeading;
  /** Lowest position that a row may have. */
  readonly from: number;
}

export interface UsageGroup {
  /** Rows as JSON, each followed by a comma and a newline. */
  readonly rows: string;
  readonly count: number;
}

export function usageFolderOf(outboxPath: string): string {
  return join(outboxPath, '..', 'usage');
}

/** Removes segments that the usage log contains (before `keptFrom`), once they are a day old or the size bound is reached. */
export function openUsageLog({ folder, heading, from }: LogStart, keptFrom: () => number): SegmentLog {
  const options = { heading: JSON.stringify(heading), from, keptFrom, segmentBytes, bytesMax };
  return new SegmentLog(folder, { ...options, ageMsMax: dayMs, isAllocated: true, isDeflated: false });
}

const encoder = new TextEncoder();

export function append(log: SegmentLog, { rows, count }: UsageGroup): Promise<void> {
  const group = { count, lastMs: wallClockMs(), ids: new Uint8Array(), text: encoder.encode(rows) };
  return log.append(group, performance.now());
}

/** Returns undefined if the text is not a heading. */
export function headingIn(text: string): RowsHeading | undefined {
  try {
    return JSON.parse(text) as RowsHeading;
  } catch {
    return undefined;
  }
}
