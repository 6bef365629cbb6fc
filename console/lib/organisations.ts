/** Reads and remembers the names of organisations. */
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

/** Organisations with names. Operators get the first page of all and must search for others; members get their own. */
export function useOrganisations(): readonly NamedOrganisation[] {
  const asked = { limit: pageRows.max };
  const { data } = useRead(isOperator() ? 'organisation.list' : undefined, asked, { isOfNow: true });
  useKnown(data?.items);
  return data?.items ?? me.value?.organisations ?? [];
}

/** Remembers the names of these organisations, so that pages do not have to read the names one by one. */
export function useKnown(items: readonly NamedOrganisation[] | undefined): void {
  useEffect(() => {
    if (items?.some(({ id, name }) => known.value.get(id) !== name))
      known.value = new Map([...known.value, ...items.map(({ id, name }) => [id, name] as const)]);
  }, [items]);
}

/** Names of organisations that have been read so far. */
const known = signal<ReadonlyMap<string, string>>(new Map());
const names = computed(() => {
  const own = me.value?.organisations ?? [];
  // Members see only the names of their own organisations, even if an operator used the page before.
  return new Map([...own.map(({ id, name }) => [id, name] as const), ...(isOperator() ? known.value : [])]);
});

/** Returns the name of an organisation. Until the name has been read, returns the id and starts the read. */
export function organisationName(id: string): string {
  const name = names.value.get(id);
  if (name === undefined) readLater(id);
  return name ?? id;
}

/** Delay in ms before a single name is requested, because most names are in a list that the page reads anyway. */
const listFirstMs = 300;
const readsAtOnce = 4;
/** Maximum number of names that wait to be read. It is somewhat more than a page shows. */
const unreadMax = 200;
/** Ids whose names wait to be read. Each name is requested only once, even if the organisation no longer exists. */
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
    // A removed organisation is shown by its id. After any other failure, the name is read again when it is next needed.
    if (toFailure(error).status !== 404) asked.delete(id);
  } finally {
    reads--;
    readNext();
  }
}
