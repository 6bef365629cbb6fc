/** What an answer of the API says, as pages may show it. */
import { printable } from '../../schemas/printable.ts';

/** What JSON writes for characters of which some have to be made visible. */
const escaped = /\\[ubfr]/;
const kept = '\n\t';

/** JSON text of the API; undefined where it is none. Its texts are made visible here, so that no page has to. */
export function documentOf<T>(text: string): T | undefined {
  try {
    // To look at each value takes several times as long as to read them, and hardly any answer has such a character.
    if (!escaped.test(text) && printable(text, kept) === text) return JSON.parse(text) as T;
    return JSON.parse(text, (_name, value: unknown) =>
      typeof value === 'string' ? printable(value, kept) : value,
    ) as T;
  } catch {
    return undefined;
  }
}
