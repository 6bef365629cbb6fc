/**
 * Text for terminals. Names and reasons come from others: a control character or a change of direction in them could
 * repaint the screen or make one line pretend to be two, so none is ever written as it is.
 */

/** Controls, changes of direction, line separators and half surrogates. */
const unsafe = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu;

/** The same text with unsafe characters as `\u001b`. */
export function printable(text: string): string {
  return text.replace(unsafe, escaped);
}

/** JSON text whose strings are printable, too: JSON itself lets 0x7f to 0x9f and changes of direction pass. */
export function printableJson(value: unknown, indent?: number): string {
  // Line feeds between the members are ours; inside strings JSON has escaped them.
  return JSON.stringify(value, null, indent).replace(unsafe, (character) =>
    character === '\n' ? character : escaped(character),
  );
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A value of a thing as one cell of a table: `-` where there is none. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  return printable(typeof value === 'object' ? JSON.stringify(value) : String(value));
}
