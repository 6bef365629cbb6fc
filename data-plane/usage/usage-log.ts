/**
 * The log of rows of a data folder: what requests used, in segments that the thread of requests appends to and the usage worker
 * reads. It is the only place where a row is kept; `outbox.db` has how far it was counted and shipped.
 */
import { join } from 'node:path';
import { dayMs } from '../../schemas/durations.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { SegmentLog } from './segment-log.ts';

/** More than the rows have that may wait for the database, which fit into one half. */
const segmentBytes = 2 * 1024 * 1024;
const bytesMax = 1024 * 1024 * 1024;

/** Of whom the rows of a segment are. */
export interface RowsHeading {
  /** Id of `outbox.db`. */
  readonly database: string;
  /** Id of the process start that recorded them. */
  readonly incarnation: string;
}

/** Where the log of a process begins. */
export interface LogStart {
  readonly folder: string;
  readonly heading: RowsHeading;
  /** No row has a lower position. */
  readonly from: number;
}

export interface UsageGroup {
  /** Each row is JSON, with a comma and a newline behind it. */
  readonly rows: string;
  readonly count: number;
}

export function usageFolderOf(outboxPath: string): string {
  return join(outboxPath, '..', 'usage');
}

/** What is removed is a day old, or above the bound in bytes, and on the usage log (before `keptFrom`). */
export function openUsageLog({ folder, heading, from }: LogStart, keptFrom: () => number): SegmentLog {
  const options = { heading: JSON.stringify(heading), from, keptFrom, segmentBytes, bytesMax };
  return new SegmentLog(folder, { ...options, ageMsMax: dayMs, isAllocated: true, isDeflated: false });
}

const encoder = new TextEncoder();

export function append(log: SegmentLog, { rows, count }: UsageGroup): Promise<void> {
  const group = { count, lastMs: wallClockMs(), ids: new Uint8Array(), text: encoder.encode(rows) };
  return log.append(group, performance.now());
}

/** Undefined where it is none. */
export function headingIn(text: string): RowsHeading | undefined {
  try {
    return JSON.parse(text) as RowsHeading;
  } catch {
    return undefined;
  }
}
