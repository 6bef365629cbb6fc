/** Parsers for option values. They throw commander's own error, which names the option and leads to exit code 2. */
import { InvalidArgumentError } from 'commander';
import { momentForms, parseMoment } from '../../schemas/admin/moments.ts';
import { ageUnits, dayMs, durationMs, slowerThanMs } from '../../schemas/durations.ts';
import type { Place } from '../../schemas/names.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';

/** Values that `--output` accepts. */
export const formats = ['table', 'json', 'jsonl', 'yaml', 'name'] as const;
export type Format = (typeof formats)[number];

/** Parses a log position, which is a whole number of at least 1. */
export function parsePosition(text: string): number {
  return wholeNumber(text, 1);
}

/** Checks that the text describes a past state in a form that the control plane accepts. */
export function parseMomentOption(text: string): string {
  if (parseMoment(text, wallClockMs()) === undefined)
    throw new InvalidArgumentError(`It must be ${momentForms}.`);
  return text;
}

/** Checks the Idempotency-Key of a command that was sent earlier. */
export function parseCommandId(text: string): string {
  if (/^[A-Za-z0-9._-]{8,64}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be 8 to 64 letters, digits, dots, underscores or hyphens.');
}

/** Parses a whole number of at least 1. */
export function parseCount(text: string): number {
  return wholeNumber(text, 1);
}

/** Parses a number of tokens, which may be 0. */
export function parseAmount(text: string): number {
  return wholeNumber(text, 0);
}

/** Parses a limit: a whole number of at least 0, or `none` for unlimited. */
export function parseLimit(text: string): number | 'none' {
  return limitParser(0)(text);
}

export function limitParser(least: number, most?: number): (text: string) => number | 'none' {
  return (text) => (text === 'none' ? 'none' : wholeNumber(text, least, most, ', or none'));
}

export function countParser(least: number, most: number): (text: string) => number {
  return (text) => wholeNumber(text, least, most);
}

/** Parses a number of tokens to add. A negative number is subtracted. */
export function parseSignedAmount(text: string): number {
  if (!/^[+-]?\d{1,12}$/.test(text))
    throw new InvalidArgumentError('It must be a whole number, such as 1000 or -1000.');
  return Number(text);
}

function wholeNumber(text: string, least: number, most = Number.MAX_SAFE_INTEGER, or = ''): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= least && number <= most) return number;
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`;
  throw new InvalidArgumentError(`It must be a whole number, ${range}${or}.`);
}

/** Checks that the text is a calendar day, YYYY-MM-DD. */
export function parseDay(text: string): string {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== text)
    throw new InvalidArgumentError('It must be a day, YYYY-MM-DD.');
  return text;
}

/** Checks that the text is an RFC 3339 time in UTC. */
export function parseTime(text: string): string {
  if (!/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/.test(text) || Number.isNaN(Date.parse(text)))
    throw new InvalidArgumentError('It must be a time in UTC, such as 2026-11-22T08:00:00Z.');
  return text;
}

/** Parses a time, or an age such as `30m`. Returns ms since 1970. */
export function parseSinceMs(text: string): number {
  const ageMs = durationMs(text, ageUnits);
  const ms = Number.isNaN(ageMs) ? Date.parse(text) : wallClockMs() - ageMs;
  if (!Number.isNaN(ms)) return ms;
  throw new InvalidArgumentError('It must be a time, or an age such as 30m, 1h or 1d.');
}

/** Parses a duration of up to one hour, such as `60s`, `500ms`, `2m` or a plain number of seconds. Returns seconds. */
export function parseDurationSeconds(text: string): number {
  const seconds = durationMs(text, ['alone', 'ms', 's', 'm']) / 1000;
  if (seconds >= 0 && seconds <= 3600) return seconds;
  throw new InvalidArgumentError('Enter a duration of up to one hour, such as 60s.');
}

/** Checks a duration such as 500ms, for the filter on requests that took at least as long. */
export function parseSlowerThan(text: string): string {
  if (!Number.isNaN(slowerThanMs(text))) return text;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 2s or 1m.');
}

/** Parses how long a sign-in link is valid. Returns seconds. */
export function parseLinkSeconds(text: string): number {
  const ms = durationMs(text, ageUnits);
  if (ms >= 60_000 && ms <= 30 * dayMs) return ms / 1000;
  throw new InvalidArgumentError('It must be a duration such as 7d or 12h, from 60s to 30d.');
}

/** Returns a parser for comma-separated lists of the known names. */
export function namesParser<Name extends string>(known: readonly Name[]): (text: string) => Name[] {
  return (text) => {
    const names = text.split(',');
    if (names.every((name) => known.some((each) => each === name))) return names as Name[];
    throw new InvalidArgumentError(`It must be a list of ${known.join(', ')}, separated by commas.`);
  };
}

/** Parses a list such as `a,b,c`. Returns `*` unchanged. */
export function parseSelection(text: string): '*' | string[] {
  return text === '*' ? '*' : text.split(',').filter((id) => id !== '');
}

/** Parses a place: `pool`, `stack:ID` or `organisation:ID`. */
export function parsePlace(text: string): Place {
  if (text === 'pool') return { kind: 'pool' };
  const [, kind, id = ''] = /^(stack|organisation):(.+)$/.exec(text) ?? [];
  if (kind === 'stack' || kind === 'organisation') return { kind, id };
  throw new InvalidArgumentError('It must be pool, stack:ID or organisation:ID.');
}
