/** Text for terminals and tables. */
import { printable } from '../../schemas/printable.ts';

/** JSON text with printable strings: JSON itself does not escape 0x7f to 0x9f and marks of text direction. */
export function printableJson(value: unknown, indent?: number): string {
  // A raw line feed is indentation; inside strings JSON has escaped it.
  return printable(JSON.stringify(value, null, indent), '\n');
}

/** A value as one table cell: `-` if there is none. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  return printable(typeof value === 'object' ? JSON.stringify(value) : String(value));
}
