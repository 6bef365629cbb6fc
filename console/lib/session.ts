/** Who is signed in, and what they may do: as the control plane computes it, never decided here. */
import { signal } from '@preact/signals';
import type { AnswerOf } from '../../schemas/admin/admin.ts';
import { moment } from './travel.ts';

export type Person = AnswerOf<'me.get'>;

/** undefined: not known yet; null: nobody. */
export const me = signal<Person | null | undefined>(undefined);
/** The position of the last own write. */
export const minPosition = signal(0);

export function signedOut(): void {
  me.value = null;
}

/** Whether a command is open: in one organisation, or for the operator in all. */
export function may(command: string, organisation?: string): boolean {
  const person = me.value;
  // In the past nothing can be changed.
  if (!person || moment() !== undefined) return false;
  if (person.operator) return person.commands.includes(command);
  return person.organisations.some(
    ({ id, commands }) => (organisation === undefined || id === organisation) && commands.includes(command),
  );
}

/** False of somebody who is signed in and a member of nothing: no data is for them. */
export function hasRole(): boolean {
  const person = me.value;
  return !!person && (person.operator || person.organisations.length > 0);
}

export function isOperator(): boolean {
  return me.value?.operator === true;
}
