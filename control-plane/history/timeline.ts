/** How many commits of which kind were written when. */
import type { AdminResponse } from '../../schemas/admin.ts';
import type { NamedMoment } from '../../schemas/moments.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';

type TimelineBucket = AdminResponse<'GET /timeline'>['buckets'][number];

export interface TimelineQuestion {
  readonly from: NamedMoment;
  readonly toMs: number;
  readonly buckets: number;
}

export interface Timeline {
  readonly fromMs: number;
  readonly buckets: TimelineBucket[];
  /** Where the past was cut, and more of it was asked for. */
  readonly begin?: number;
}

/** Buckets of equal length between two times, the last one inclusive. Of a cut past some commits are still there. */
export function timeline(
  db: Database,
  { fromMs, toMs, count, begin }: Readonly<Record<'fromMs' | 'toMs' | 'count' | 'begin', number>>,
): TimelineBucket[] {
  const lengthMs = Math.max(1, Math.ceil((toMs - fromMs + 1) / count));
  const moment = (ms: number): string => new Date(ms).toISOString();
  const buckets = Array.from(
    { length: count },
    (_, index): TimelineBucket & { commits: Record<string, number> } => ({
      from: moment(fromMs + index * lengthMs),
      to: moment(fromMs + (index + 1) * lengthMs),
      commits: {},
    }),
  );
  const rows = db
    .prepare<[number, number, number, number, number], Row>(
      `SELECT CAST((clock_ms - ?) / ? AS INTEGER) AS bucket, kind, count(*) AS commits, min(seq) AS first, max(seq) AS last
       FROM history_commit WHERE clock_ms BETWEEN ? AND ? AND seq >= ? GROUP BY 1, 2`,
    )
    .all(fromMs, lengthMs, fromMs, toMs, begin);
  for (const { bucket, kind, commits, first, last } of rows) {
    const into = buckets[bucket];
    if (!into) continue;
    into.commits[kind] = commits;
    into.first = Math.min(into.first ?? first, first);
    into.last = Math.max(into.last ?? last, last);
  }
  return buckets;
}

interface Row {
  readonly bucket: number;
  readonly kind: string;
  readonly commits: number;
  readonly first: number;
  readonly last: number;
}
