/** Parses answers of the API so that pages can safely show their texts. */
import { printable } from '../../schemas/printable.ts';

/** JSON escapes that may hide characters to be made visible. */
const escaped = /\\[ubfr]/;
const kept = '\n\t';

/** Parses JSON text and makes invisible characters in its strings visible. Returns undefined if it is not JSON. */
export function parseDocument<T>(text: string): T | undefined {
  try {
    // Visiting each value takes several times as long as parsing, and hardly any answer contains such a character.
    if (!escaped.test(text) && printable(text, kept) === text) return JSON.parse(text) as T;
    return JSON.parse(text, (_name, value: unknown) =>
      typeof value === 'string' ? printable(value, kept) : value,
    ) as T;
  } catch {
    return undefined;
  }
}
