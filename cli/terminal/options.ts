/** Parsers of option values. Each throws commander's own error, which becomes exit 2. */
import { InvalidArgumentError } from 'commander';
import { momentForms, parseMoment } from '../../schemas/moments.ts';

/** A position of the log: a whole number from 1. */
export function position(text: string): number {
  return wholeNumber(text, 1);
}

/** A moment of the past, as the control plane reads it. */
export function moment(text: string): string {
  if (parseMoment(text, Date.now()) === undefined)
    throw new InvalidArgumentError(`It must be ${momentForms}.`);
  return text;
}

/** The Idempotency-Key of a command that was sent before. */
export function commandId(text: string): string {
  if (/^[A-Za-z0-9._-]{8,64}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be 8 to 64 letters, digits, dots, underscores or hyphens.');
}

/** A count from 1. */
export function count(text: string): number {
  return wholeNumber(text, 1);
}

/** A limit: a whole number from 0, or `none` for unlimited. */
export function limit(text: string): number | 'none' {
  return text === 'none' ? 'none' : wholeNumber(text, 0);
}

function wholeNumber(text: string, least: number): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < least)
    throw new InvalidArgumentError(`It must be a whole number, ${least} or more.`);
  return number;
}

const unitSeconds: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60 };

/** `60s`, `500ms`, `2m` or seconds alone, in seconds; an hour at most. */
export function durationSeconds(text: string): number {
  const match = /^(\d{1,7}(?:\.\d{1,3})?)(ms|s|m)?$/.exec(text);
  const seconds = Number(match?.[1]) * (unitSeconds[match?.[2] ?? 's'] ?? 1);
  if (!match || seconds > 3600)
    throw new InvalidArgumentError('It must be a duration such as 60s, one hour at most.');
  return seconds;
}

const longUnitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** `7d`, `12h`, `30m` or `90s`, in seconds. */
export function longSeconds(text: string): number {
  const match = /^(\d{1,7})([smhd])$/.exec(text);
  if (!match) throw new InvalidArgumentError('It must be a duration such as 7d or 12h.');
  return Number(match[1]) * (longUnitSeconds[match[2] ?? 's'] ?? 1);
}

/** `a,b,c` as a list, `*` as it is. */
export function selection(text: string): '*' | string[] {
  return text === '*' ? '*' : text.split(',').filter((id) => id !== '');
}

/** `pool`, `stack:ID` or `organisation:ID`. */
export function place(text: string): { readonly kind: string; readonly id?: string } {
  if (text === 'pool') return { kind: 'pool' };
  const match = /^(stack|organisation):(.+)$/.exec(text);
  if (!match) throw new InvalidArgumentError('It must be pool, stack:ID or organisation:ID.');
  return { kind: match[1] as string, id: match[2] as string };
}
