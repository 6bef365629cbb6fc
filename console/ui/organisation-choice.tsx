/** Chooses the organisation of a page; it stands in the address. Nothing where there is no choice. */
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { useRead } from '../lib/read.ts';
import { setQuery } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator, me } from '../lib/session.ts';

export interface OrganisationChoiceProps {
  /** Where there is no page for all together: the one that is shown while the address names none. */
  readonly shown?: string | undefined;
}

export function OrganisationChoice({ shown }: OrganisationChoiceProps) {
  const organisations = useOrganisations();
  const inScope = organisationInScope() ?? shown ?? '';
  if (organisations.length < (isOperator() ? 1 : 2)) return null;
  // One of the past may be gone.
  const isGone = inScope !== '' && !organisations.some(({ id }) => id === inScope);
  return (
    <label class="choice">
      <span>Organisation</span>
      <select value={inScope} onChange={({ currentTarget }) => setQuery({ org: currentTarget.value })}>
        {isOperator() && shown === undefined ? <option value="">All</option> : null}
        {isGone ? <option value={inScope}>{inScope}</option> : null}
        {organisations.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** All for the operator, their own for a member. */
export function useOrganisations(): readonly { readonly id: string; readonly name: string }[] {
  const { data } = useRead(isOperator() ? 'organisation.list' : undefined, {}, { isOfNow: true });
  useEffect(() => {
    if (data !== undefined) known.value = data.items;
  }, [data]);
  return data?.items ?? me.value?.organisations ?? [];
}

/** Those of the last list that was read. */
const known = signal<readonly { readonly id: string; readonly name: string }[]>([]);
const names = computed(() => {
  const own = me.value?.organisations ?? [];
  // A member sees the names of their own alone, also where an operator used the page before.
  const all = isOperator() ? [...own, ...known.value] : own;
  return new Map(all.map(({ id, name }) => [id, name]));
});

/** The name of an organisation; its id while the name is not known. */
export function organisationName(id: string): string {
  return names.value.get(id) ?? id;
}

/** The same on a page without the list: only this one is read, because of many organisations the list is long. */
export function useOrganisationName(id: string): string {
  const name = organisationName(id);
  const isUnknown = isOperator() && name === id;
  const { data } = useRead(isUnknown ? 'organisation.get' : undefined, { id }, { isOfNow: true });
  return data?.name ?? name;
}
