/** Which organisations there are, and what they are called. */
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { call, failureOf } from './api.ts';
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

/** Their names are shown from then on, wherever their ids come; those of others are read one by one. */
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

/** The name of an organisation; its id while the name is not known, which is read then. */
export function organisationName(id: string): string {
  const name = names.value.get(id);
  if (name === undefined) readLater(id);
  return name ?? id;
}

/** Most are in a list that the page reads anyway. */
const listFirstMs = 300;
const readsAtOnce = 4;
/** Some more than a page shows. */
const unreadMax = 200;
/** What a page shows without a name; each is read once, also where it has none any more. */
const unread: string[] = [];
const asked = new Set<string>();
let reads = 0;

function readLater(id: string): void {
  if (id === '' || !isOperator() || asked.has(id)) return;
  asked.add(id);
  unread.push(id);
  if (unread.length > unreadMax) asked.delete(unread.shift() ?? '');
  setTimeout(readNext, listFirstMs);
}

function readNext(): void {
  while (reads < readsAtOnce) {
    const id = unread.shift();
    if (id === undefined) return;
    if (!known.value.has(id)) void readName(id);
  }
}

async function readName(id: string): Promise<void> {
  reads++;
  try {
    const { name } = await call('organisation.get', { id }, { isBackground: true });
    known.value = new Map([...known.value, [id, name]]);
  } catch (error) {
    // Of what was removed the id is shown; any other is asked for when it is shown again.
    if (failureOf(error).status !== 404) asked.delete(id);
  } finally {
    reads--;
    readNext();
  }
}
