/** The signed-in person and their permissions. The control plane computes permissions, and the console never decides them. */
import { signal } from '@preact/signals';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { moment } from './travel.ts';

export type Person = OperationAnswer<'me.get'>;

/** undefined if not known yet. null if nobody is signed in. */
export const me = signal<Person | null | undefined>(undefined);
/** Position of the user's last write. */
export const minPosition = signal(0);

export function signedOut(): void {
  me.value = null;
}

/** Whether a command is allowed in the given organisation or, without one, in any. */
export function may(command: string, organisation?: string): boolean {
  const person = me.value;
  // Nothing can be changed in the past.
  if (!person || moment() !== undefined) return false;
  if (person.operator) return person.commands.includes(command);
  return person.organisations.some(
    ({ id, commands }) => (organisation === undefined || id === organisation) && commands.includes(command),
  );
}

/** False for a signed-in person who is not a member of any organisation and so may not see data. */
export function hasRole(): boolean {
  const person = me.value;
  return !!person && (person.operator || person.organisations.length > 0);
}

export function isOperator(): boolean {
  return me.value?.operator === true;
}
