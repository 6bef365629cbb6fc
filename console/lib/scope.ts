/** Selects the organisation that a page is about: the one in the URL or, for a member, the first of their own. */
import { location } from './router.ts';
import { me } from './session.ts';

/** Returns the organisation, or undefined for all organisations, which only an operator can see. */
export function organisationInScope(): string | undefined {
  const wanted = location.value.query.get('org') ?? undefined;
  const person = me.value;
  if (!person || person.operator) return wanted;
  const own = person.organisations.map(({ id }) => id);
  return wanted !== undefined && own.includes(wanted) ? wanted : own[0];
}
