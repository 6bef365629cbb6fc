/**
 * Makes text safe for terminals. Names and reasons are untrusted: a control character or a bidirectional override could
 * repaint the screen or forge a line, so both are always escaped.
 */

/** Control characters, bidirectional overrides, line separators and lone surrogates. */
const unsafe = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu;

/** The same text with unsafe characters as `\u001b`. */
export function printable(text: string): string {
  return text.replace(unsafe, escaped);
}

/** JSON text with printable strings: JSON itself does not escape 0x7f to 0x9f and bidirectional overrides. */
export function printableJson(value: unknown, indent?: number): string {
  // A raw line feed is indentation; inside strings JSON has escaped it.
  return JSON.stringify(value, null, indent).replace(unsafe, (character) =>
    character === '\n' ? character : escaped(character),
  );
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A value as one table cell: `-` if there is none. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  return printable(typeof value === 'object' ? JSON.stringify(value) : String(value));
}
