/** Formats numbers, times and words for display. */
import { groupDigits } from '../../schemas/grouped.ts';

/** Formatters are created on first use, because creating them takes many milliseconds and most pages need none. */
let formats:
  | Readonly<Record<'dates' | 'calendarDays' | 'shortDays' | 'moments' | 'clocks', Intl.DateTimeFormat>>
  | undefined;

function getFormats() {
  const onDay = { day: 'numeric', month: 'short' } as const;
  const atTime = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const;
  formats ??= {
    dates: new Intl.DateTimeFormat('en-GB', { ...onDay, year: 'numeric' }),
    calendarDays: new Intl.DateTimeFormat('en-GB', { ...onDay, year: 'numeric', timeZone: 'UTC' }),
    shortDays: new Intl.DateTimeFormat('en-GB', { ...onDay, timeZone: 'UTC' }),
    moments: new Intl.DateTimeFormat('en-GB', { ...onDay, ...atTime }),
    clocks: new Intl.DateTimeFormat('en-GB', atTime),
  };
  return formats;
}

/** Formats a number with grouped digits and at most three decimals, such as `18,240`. */
export function count(value: number): string {
  return groupDigits(Math.round(value * 1000) / 1000);
}

export function tenths(value: number): string {
  return count(Math.round(value * 10) / 10);
}

/** Formats a day. An instant becomes its day in local time; a calendar day (`2026-11-23`) is the same in every time zone. */
export function day(text: string | null | undefined): string {
  if (!text) return '–';
  const { dates, calendarDays } = getFormats();
  return (text.length === '2026-11-23'.length ? calendarDays : dates).format(new Date(text));
}

/** Formats the calendar day that begins at this time in seconds, such as `23 Nov`. */
export function shortDay(seconds: number): string {
  return getFormats().shortDays.format(new Date(seconds * 1000));
}

export function moment(text: string | null | undefined): string {
  return text ? getFormats().moments.format(new Date(text)) : '–';
}

/** Formats a moment of today as a time of day, such as `18:02:11`. Other moments include the day. */
export function clock(text: string): string {
  const { clocks, moments } = getFormats();
  return (isToday(text) ? clocks : moments).format(new Date(text));
}

export function isToday(text: string): boolean {
  const { dates } = getFormats();
  return dates.format(new Date(text)) === dates.format(new Date());
}

/** Formats a duration, such as `1.2 s`, `4 min`, `3 h` or `2 days`. */
export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172_800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86_400)} days`;
}

export function ago(text: string, nowMs = Date.now()): string {
  return `${seconds(Math.max(0, (nowMs - Date.parse(text)) / 1000))} ago`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Capitalises the first letter of a text, unless the text begins with a command or an id. */
export function sentence(text: string): string {
  return /^(?!headgate )[a-z]+[ ,]/.test(text) ? `${text.charAt(0).toUpperCase()}${text.slice(1)}` : text;
}

/** Lists the first three names, followed by the number of further names. */
export function nameSome(names: readonly string[]): string {
  return names.length <= 3
    ? names.join(', ')
    : `${names.slice(0, 3).join(', ')} and ${count(names.length - 3)} more`;
}

/** Quotes a word for use in a shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
