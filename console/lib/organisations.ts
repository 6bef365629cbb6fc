/** Which organisations there are, and what they are called. */
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { pageRows } from '../../schemas/page-rows.ts';
import { useRead } from './read.ts';
import { isOperator, me } from './session.ts';

export interface NamedOrganisation {
  readonly id: string;
  readonly name: string;
}

/** As many as one page has, for the operator; their own for a member. Only for names: one of more is chosen by search. */
export function useOrganisations(): readonly NamedOrganisation[] {
  const asked = { limit: pageRows.max };
  const { data } = useRead(isOperator() ? 'organisation.list' : undefined, asked, { isOfNow: true });
  useKnown(data?.items);
  return data?.items ?? me.value?.organisations ?? [];
}

/** Their names are shown from then on, wherever their ids come. */
export function useKnown(items: readonly NamedOrganisation[] | undefined): void {
  useEffect(() => {
    if (items?.some(({ id, name }) => known.value.get(id) !== name))
      known.value = new Map([...known.value, ...items.map(({ id, name }) => [id, name] as const)]);
  }, [items]);
}

/** The names of all that were read. */
const known = signal<ReadonlyMap<string, string>>(new Map());
const names = computed(() => {
  const own = me.value?.organisations ?? [];
  // A member sees the names of their own alone, also where an operator used the page before.
  return new Map([...own.map(({ id, name }) => [id, name] as const), ...(isOperator() ? known.value : [])]);
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
