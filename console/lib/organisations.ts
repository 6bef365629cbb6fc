/** Names of organisations. */
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { call, toFailure } from './api.ts';
import { useRead } from './read.ts';
import { isOperator, me } from './session.ts';

export interface NamedOrganisation {
  readonly id: string;
  readonly name: string;
}

/** Organisations with their names: one page for an operator, their own for a member. A search finds more. */
export function useOrganisations(): readonly NamedOrganisation[] {
  const asked = { limit: pageRows.max };
  const { data } = useRead(isOperator() ? 'organisation.list' : undefined, asked, { isOfNow: true });
  useKnown(data?.items);
  return data?.items ?? me.value?.organisations ?? [];
}

/** Remembers these names, so that their ids are shown with names everywhere. Other names are read one by one. */
export function useKnown(items: readonly NamedOrganisation[] | undefined): void {
  useEffect(() => {
    if (items?.some(({ id, name }) => known.value.get(id) !== name))
      known.value = new Map([...known.value, ...items.map(({ id, name }) => [id, name] as const)]);
  }, [items]);
}

/** All names read so far. */
const known = signal<ReadonlyMap<string, string>>(new Map());
const names = computed(() => {
  const own = me.value?.organisations ?? [];
  // A member sees only their own organisations' names, even if an operator used the page before.
  return new Map([...own.map(({ id, name }) => [id, name] as const), ...(isOperator() ? known.value : [])]);
});

/** Name of an organisation. Returns the id until the name has been read, and starts the read. */
export function organisationName(id: string): string {
  const name = names.value.get(id);
  if (name === undefined) readLater(id);
  return name ?? id;
}

/** Delay before a single read, because most names are in a list that the page reads anyway. */
const listFirstMs = 300;
const readsAtOnce = 4;
/** Bound on names waiting to be read, somewhat more than a page shows. */
const unreadMax = 200;
/** Ids without a name. Each is read once, even if the organisation no longer exists. */
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
    // A removed organisation keeps its id as name. For other failures, the name is read again when next shown.
    if (toFailure(error).status !== 404) asked.delete(id);
  } finally {
    reads--;
    readNext();
  }
}
