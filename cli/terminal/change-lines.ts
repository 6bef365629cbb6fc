/** Formats changed rows or resources as lines, such as `~ tier Team` followed by `context_tokens  8192 → 16384`. */
import type { Resource } from '../admin-client/answers.ts';
import { cellText } from './text.ts';

export const changeSigns: Readonly<Record<string, string>> = { create: '+', change: '~', remove: '-' };

export function changeLines(changes: readonly Resource[]): string[] {
  return changes.flatMap(({ action, table, id, fields }) => [
    `${changeSigns[String(action)] ?? '?'} ${cellText(table)} ${cellText(id)}`,
    ...fieldLines(fields),
  ]);
}

/** Formats changed fields as indented lines, such as `field  before → after`. */
export function fieldLines(fields: unknown): string[] {
  const list = (Array.isArray(fields) ? fields : []) as Resource[];
  const isSet = (value: unknown): boolean => value !== null && value !== undefined;
  return list
    .filter(({ before, after }) => isSet(before) || isSet(after))
    .map(({ field, before, after }) => {
      const [was, is] = [before, after].map((value) => cellText(displayValue(String(field), value)));
      return `    ${cellText(field)}  ${was} → ${is}`;
    });
}

/** Converts a stored value for display, because rows store lists as JSON and times in ms since 1970. */
function displayValue(field: string, value: unknown): unknown {
  if (typeof value === 'number' && field.endsWith('_at')) return new Date(value).toISOString();
  if (typeof value !== 'string' || !/^[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
