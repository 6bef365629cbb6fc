/** Parses a past moment as people write it: a log position, a time or an age. */
import { ageUnits, durationMs } from '../durations.ts';

export type NamedMoment =
  /** The state after the commit at this position. */
  | { readonly position: number }
  /** Time in milliseconds since 1970. */
  | { readonly timeMs: number };

/** Parses `18240`, `2026-11-22T08:00:00Z` or `10m` (units s, m, h, d). Returns undefined for any other text. */
export function parseMoment(text: string, nowMs: number): NamedMoment | undefined {
  if (/^\d{1,16}$/.test(text)) {
    const position = Number(text);
    return Number.isSafeInteger(position) && position > 0 ? { position } : undefined;
  }
  const agoMs = durationMs(text, ageUnits);
  if (!Number.isNaN(agoMs)) return { timeMs: nowMs - agoMs };
  return isTime(text) ? { timeMs: Date.parse(text) } : undefined;
}

/** Accepts the same times as `momentSchema`, without the schema library, because every run of the CLI loads this file. */
function isTime(text: string): boolean {
  const [, day] = /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z$/.exec(text) ?? [];
  const ms = day === undefined ? Number.NaN : Date.parse(day);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(`${day}T`);
}

export const momentForms = 'a position, a time such as 2026-11-22T08:00:00Z, or an age such as 10m';
