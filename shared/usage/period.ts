/**
 * Computes billing periods. A period lasts from an organisation's anchor day to the same day of the next month, in UTC. In a
 * month without that day, the last day counts (anchor 31: 28 or 29 February). Periods cover all time, because only the day of
 * the month matters. The code is pure.
 */

export interface Period {
  /** First day of the period, as `YYYY-MM-DD`. */
  readonly start: string;
  readonly startMs: number;
  /** Time when the next period begins and the allowance refills, in ms since 1970. */
  readonly endMs: number;
}

/** Period found last for each anchor day of the month, because the next request nearly always needs the same period. */
const latest: (Period | undefined)[] = [];

/** Returns the period that contains a time (ms since 1970). `anchorDay` must be a valid `YYYY-MM-DD`. */
export function billingPeriod(anchorDay: string, atMs: number): Period {
  const anchorDate = Number(anchorDay.slice(8, 10));
  const known = latest[anchorDate];
  if (known !== undefined && atMs >= known.startMs && atMs < known.endMs) return known;
  const found = findPeriod(anchorDate, atMs);
  latest[anchorDate] = found;
  return found;
}

function findPeriod(anchorDate: number, atMs: number): Period {
  const at = new Date(atMs);
  const month = at.getUTCFullYear() * 12 + at.getUTCMonth();
  const thisMonth = periodStart(month, anchorDate);
  return atMs >= thisMonth
    ? period(thisMonth, periodStart(month + 1, anchorDate))
    : period(periodStart(month - 1, anchorDate), thisMonth);
}

/** Returns the time when the period that begins in this month starts. Months are counted from the year 0. */
function periodStart(month: number, anchorDate: number): number {
  const year = Math.floor(month / 12);
  const lastDate = new Date(Date.UTC(year, (month % 12) + 1, 0)).getUTCDate();
  return Date.UTC(year, month % 12, Math.min(anchorDate, lastDate));
}

function period(startMs: number, endMs: number): Period {
  return { start: new Date(startMs).toISOString().slice(0, 10), startMs, endMs };
}
