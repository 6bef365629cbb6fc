/** The organisation that a page is about: from the address, else the only one or the first one of a member. */
import { location } from './router.ts';
import { me } from './session.ts';

/** Undefined: all of them, for the operator alone. */
export function organisationInScope(): string | undefined {
  const wanted = location.value.query.get('org') ?? undefined;
  const person = me.value;
  if (!person || person.operator) return wanted;
  const own = person.organisations.map(({ id }) => id);
  return wanted !== undefined && own.includes(wanted) ? wanted : own[0];
}
