/** Changes of rows or resources as lines: `~ tier Team` and, below it, `context_tokens  8192 → 16384`. */
import type { Resource } from '../../admin-client/answers.ts';
import { cellText } from '../terminal/text.ts';

export const changeSigns: Readonly<Record<string, string>> = { create: '+', change: '~', remove: '-' };

export function changeLines(changes: readonly Resource[]): string[] {
  return changes.flatMap(({ action, table, id, fields }) => [
    `${changeSigns[String(action)] ?? '?'} ${cellText(table)} ${cellText(id)}`,
    ...fieldLines(fields),
  ]);
}

/** `field  before → after`, indented. */
export function fieldLines(fields: unknown): string[] {
  const list = (Array.isArray(fields) ? fields : []) as Resource[];
  const isSet = (value: unknown): boolean => value !== null && value !== undefined;
  return list
    .filter(({ before, after }) => isSet(before) || isSet(after))
    .map(({ field, before, after }) => `    ${cellText(field)}  ${cellText(before)} → ${cellText(after)}`);
}
