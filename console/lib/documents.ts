/** Parses API responses, so that pages can safely show the texts in them. */
import { printable } from '../../schemas/printable.ts';

/** JSON escapes that may stand for a character that must be made visible. */
const escaped = /\\[ubfr]/;
const kept = '\n\t';

/** Parses JSON and makes invisible characters in its strings visible. Returns undefined if the text is not JSON. */
export function parseDocument<T>(text: string): T | undefined {
  try {
    // Most responses contain nothing to escape, and visiting each value would take several times as long as parsing.
    if (!escaped.test(text) && printable(text, kept) === text) return JSON.parse(text) as T;
    return JSON.parse(text, (_name, value: unknown) =>
      typeof value === 'string' ? printable(value, kept) : value,
    ) as T;
  } catch {
    return undefined;
  }
}
