/** Formats values as text for terminals and tables. */
import { groupDigits } from '../../schemas/grouped.ts';
import { printable } from '../../schemas/printable.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';

/** Formats JSON that is safe to print: also escapes U+007F to U+009F and marks of text direction, which JSON allows. */
export function printableJson(value: unknown, indent?: number): string {
  // Keep line feeds, because they can only be indentation: JSON escapes line feeds in strings.
  return printable(JSON.stringify(value, null, indent), '\n');
}

const isGroup = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Formats a value as a table cell, never as JSON: `-` for no value, or `kind stack, id stk-a-b-1` for an object. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value))
    return value.length === 0 ? '-' : value.map(cellText).join(value.some(isGroup) ? '; ' : ',');
  if (!isGroup(value)) return printable(String(value));
  const parts = Object.entries(value).filter(([, part]) => part !== undefined && part !== null);
  return parts.length === 0
    ? '-'
    : parts.map(([name, part]) => `${printable(name)} ${cellText(part)}`).join(', ');
}

/** Formats a value as a table cell, and groups the digits of numbers by three. */
export function amountText(value: unknown): string {
  return typeof value === 'number' ? groupDigits(value) : cellText(value);
}

const namesShown = 3;

/** Formats the first three names of a list, and the number of further ones. */
export function formatSome(names: unknown): string {
  if (!Array.isArray(names) || names.length <= namesShown) return cellText(names);
  return `${cellText(names.slice(0, namesShown))} and ${groupDigits(names.length - namesShown)} more`;
}

/** Formats a limit's use as `31 of 60` or `31, no limit`. null means that the use is unknown or that there is no limit. */
export function formatUse(used: unknown, limit: unknown): string {
  const number = typeof used === 'number' ? groupDigits(used) : undefined;
  if (typeof limit !== 'number') return number === undefined ? 'no limit' : `${number}, no limit`;
  return `${number ?? '-'} of ${groupDigits(limit)}`;
}

/** Formats the time since or until a moment: `45s`, `5m`, `3h`, `12d` or `in 89d`. Returns `-` if it is not a time. */
export function ageText(at: unknown, nowMs = wallClockMs()): string {
  const seconds = (nowMs - Date.parse(String(at))) / 1000;
  if (Number.isNaN(seconds)) return '-';
  // Allow five seconds, so that a small clock difference does not make the past look like the future.
  return seconds < -5 ? `in ${spanText(-seconds)}` : spanText(Math.max(0, seconds));
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
