/**
 * Billing periods: from an organisation's anchor day to the same day of the next month, in UTC, or the month's last day if it
 * is shorter (anchor 31: 28 or 29 February). Periods cover all time, because only the day of the month matters. Pure.
 */

export interface Period {
  /** First day, `YYYY-MM-DD`. */
  readonly start: string;
  readonly startMs: number;
  /** First moment of the next period, when the allowance refills. */
  readonly endMs: number;
}

/** Cache of the last period by day of the month, because the next request nearly always needs the same one. */
const latest: (Period | undefined)[] = [];

/** Returns the period that contains a moment (ms since 1970). `anchorDay` must be a valid `YYYY-MM-DD`. */
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

/** Returns the start of the period that begins in this month; months are counted from year 0. */
function periodStart(month: number, anchorDate: number): number {
  const year = Math.floor(month / 12);
  const lastDate = new Date(Date.UTC(year, (month % 12) + 1, 0)).getUTCDate();
  return Date.UTC(year, month % 12, Math.min(anchorDate, lastDate));
}

function period(startMs: number, endMs: number): Period {
  return { start: new Date(startMs).toISOString().slice(0, 10), startMs, endMs };
}
