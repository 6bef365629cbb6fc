/**
 * Moves completed requests from `usage.db` into day files, on a thread that only reads `usage.db`. Rows count as moved once
 * the main thread has recorded the move (`kept-rows.ts`). After a crash before the move is recorded, the rows are written
 * again with the same ids.
 */
import { readKeptRow, type UsageRow } from '../../schemas/records/usage.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { mapSqliteError, openDatabase, prepare } from '../../shared/runtime/sqlite.ts';
import { DayWriter, dayFolderOf } from './day-files.ts';
import type { DayRows, Kept } from './kept-tables.ts';
import type { StoredRequest } from './request-table.ts';

/** Number of rows whose move is recorded in one transaction, which takes a few milliseconds. */
const partRows = 1_000;
export const partsMax = 40;

export interface MoveTask {
  /** Path of `usage.db`. */
  readonly path: string;
  /** Whether day files may contain rows whose move an earlier process did not record. */
  readonly isFirst: boolean;
}

/** Result of moving one part of the rows. Each part begins after the last row of the previous one. */
export interface MovedPart {
  /** Id of the last row in this part. */
  readonly moved: number;
  readonly days: readonly DayRows[];
}

export function moveRows({ path, isFirst }: MoveTask): MovedPart[] {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  const kept = prepare<Kept>(db, 'SELECT * FROM kept').get() as Kept;
  const writer = new DayWriter(dayFolderOf(path), kept.id);
  try {
    if (isFirst) writer.cut(kept.moved, kept.from_day);
    const rows = prepare<StoredRequest>(db, 'SELECT * FROM request WHERE id > ? ORDER BY id LIMIT ?');
    const parts: MovedPart[] = [];
    while (parts.length < partsMax) {
      const found = rows.all(parts.at(-1)?.moved ?? kept.moved, partRows);
      if (found.length === 0) break;
      parts.push(move(found, kept, writer));
    }
    return parts;
  } catch (error) {
    throw mapSqliteError(error, path);
  } finally {
    writer.close();
    db.close();
  }
}

function move(rows: readonly StoredRequest[], kept: Kept, writer: DayWriter): MovedPart {
  const days = new Map<string, StoredRequest[]>();
  for (const row of rows) {
    const day = dayOf(readKeptRow(row.body));
    const ofDay = days.get(day);
    if (ofDay !== undefined) ofDay.push(row);
    else if (day >= kept.from_day) days.set(day, [row]);
  }
  for (const [day, ofDay] of days) writer.write(day, ofDay);
  const dayRows = ([day, ofDay]: [string, StoredRequest[]]): DayRows => ({
    ...{ day, rows: ofDay.length },
    ...{ first_id: ofDay[0]?.id ?? 0, last_id: ofDay.at(-1)?.id ?? 0 },
  });
  return { moved: rows.at(-1)?.id ?? 0, days: [...days].map(dayRows) };
}

/** Returns the day of a row. Unreadable rows are filed under the current day, so that people can still inspect them. */
function dayOf(row: UsageRow | undefined): string {
  return row?.at.slice(0, 10) ?? dayOfMs(wallClockMs());
}

export function dayOfMs(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
