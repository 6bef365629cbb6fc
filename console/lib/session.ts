/** The signed-in person and what they may do. The control plane computes permissions; the console never decides them. */
import { signal } from '@preact/signals';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { moment } from './travel.ts';

export type Person = OperationAnswer<'me.get'>;

/** Signed-in person, null if nobody is signed in, or undefined until this is known. */
export const me = signal<Person | null | undefined>(undefined);
/** Position of the user's last write. Reads wait until the control plane has folded it. */
export const minPosition = signal(0);

export function signedOut(): void {
  me.value = null;
}

/** Whether the signed-in person may use a command in this organisation or, if none is given, in any organisation. */
export function may(command: string, organisation?: string): boolean {
  const person = me.value;
  // Nothing can be changed while the page shows the past.
  if (!person || moment() !== undefined) return false;
  if (person.operator) return person.commands.includes(command);
  return person.organisations.some(
    ({ id, commands }) => (organisation === undefined || id === organisation) && commands.includes(command),
  );
}

/** Whether the signed-in person has any role. Without one, they may not see any data. */
export function hasRole(): boolean {
  const person = me.value;
  return !!person && (person.operator || person.organisations.length > 0);
}

export function isOperator(): boolean {
  return me.value?.operator === true;
}
