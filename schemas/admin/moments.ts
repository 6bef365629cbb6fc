/** How a moment of the past is written: a position of the log, a time, or a time ago. */
import { ageUnits, durationMs } from '../durations.ts';

export type NamedMoment =
  /** After this commit. */
  | { readonly position: number }
  /** ms since 1970. */
  | { readonly timeMs: number };

/** `18240`, `2026-11-22T08:00:00Z` or `10m` (s, m, h, d). undefined: none of these. */
export function parseMoment(text: string, nowMs: number): NamedMoment | undefined {
  if (/^\d{1,16}$/.test(text)) {
    const position = Number(text);
    return Number.isSafeInteger(position) && position > 0 ? { position } : undefined;
  }
  const agoMs = durationMs(text, ageUnits);
  if (!Number.isNaN(agoMs)) return { timeMs: nowMs - agoMs };
  return isTime(text) ? { timeMs: Date.parse(text) } : undefined;
}

/** As `momentSchema` has it: without a schema, because every command line reads this file. */
function isTime(text: string): boolean {
  const [, day] = /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z$/.exec(text) ?? [];
  const ms = day === undefined ? Number.NaN : Date.parse(day);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(`${day}T`);
}

export const momentForms = 'a position, a time such as 2026-11-22T08:00:00Z, or a time ago such as 10m';
