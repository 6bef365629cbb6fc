/** Text for terminals and tables. */
import { grouped } from '../../schemas/grouped.ts';
import { printable } from '../../schemas/printable.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';

/** JSON text with printable strings: JSON itself does not escape 0x7f to 0x9f and marks of text direction. */
export function printableJson(value: unknown, indent?: number): string {
  // A raw line feed is indentation; inside strings JSON has escaped it.
  return printable(JSON.stringify(value, null, indent), '\n');
}

const isGroup = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** A value as one table cell, never JSON: `-` if there is none, `kind stack, id stk-a-b-1` for an object. */
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

/** A cell of a table: the digits of a number are in groups of three. */
export function amountText(value: unknown): string {
  return typeof value === 'number' ? grouped(value) : cellText(value);
}

const namesShown = 3;

/** The first names of a list, and how many more there are. */
export function someText(names: unknown): string {
  if (!Array.isArray(names) || names.length <= namesShown) return cellText(names);
  return `${cellText(names.slice(0, namesShown))} and ${grouped(names.length - namesShown)} more`;
}

/** `31 of 60`, `31, no limit`; null: not known, or without a limit. */
export function usedText(used: unknown, limit: unknown): string {
  const number = typeof used === 'number' ? grouped(used) : undefined;
  if (typeof limit !== 'number') return number === undefined ? 'no limit' : `${number}, no limit`;
  return `${number ?? '-'} of ${grouped(limit)}`;
}

/** Since or until a time: `45s`, `5m`, `3h`, `12d`, `in 89d`; `-` where it is no time. */
export function ageText(at: unknown, nowMs = wallClockMs()): string {
  const seconds = (nowMs - Date.parse(String(at))) / 1000;
  if (Number.isNaN(seconds)) return '-';
  // A clock that differs a little makes nothing of the past lie ahead.
  return seconds < -5 ? `in ${spanText(-seconds)}` : spanText(Math.max(0, seconds));
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
