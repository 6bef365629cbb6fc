/** What a chooser offers: the first ones that a list of the admin API finds for a text, however many there are. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { InputOf } from '../../schemas/admin.ts';
import { type NamedOrganisation, useKnown } from './organisations.ts';
import { type ReadOf, useRead } from './read.ts';
import { isOperator, may, me } from './session.ts';

const lists = {
  organisation: 'organisation.list',
  key: 'key.list',
  model: 'model.list',
  stack: 'stack.list',
} as const;

export type OfferedKind = keyof typeof lists;

export interface Offer {
  readonly id: string;
  readonly name?: string | undefined;
}

export interface Offers {
  readonly items: readonly Offer[];
  /** There are more than these. */
  readonly isMore: boolean;
  /** Of all that were found, where it is known. */
  readonly total?: number | undefined;
  /** The text was not searched yet. */
  readonly isOld: boolean;
}

export interface OfferQuery {
  readonly of: OfferedKind;
  readonly text: string;
  /** Only what this organisation has. */
  readonly organisation?: string | undefined;
  /** Only organisations in which the person may give this command. */
  readonly command?: string | undefined;
}

export const offeredMax = 20;
/** A hand that types causes one search. */
const settleMs = 150;

interface Page {
  readonly items: readonly Offer[];
  readonly next?: string | undefined;
  readonly total?: number | undefined;
}

/** Reads nothing until it is open. */
export function useOffers(query: OfferQuery, isOpen: boolean): Offers {
  const { of, organisation, command } = query;
  const text = useSettled(query.text);
  const list = lists[of];
  const asked = { text, organisation, limit: offeredMax, ...(of === 'key' && { sort: '-createdAt' }) };
  const isSearched = isOperator() || of === 'key' || of === 'stack';
  const read = useRead(
    isOpen && isSearched ? list : undefined,
    asked as InputOf<typeof list>,
    // What there was in the past can be asked about; who may be asked about is of now.
    { isOfNow: of === 'organisation' },
  ) as ReadOf<Page>;
  const found = of === 'organisation' ? read.data?.items : undefined;
  useKnown(found as readonly NamedOrganisation[] | undefined);
  const last = useRef<Page>({ items: [] });
  if (read.data) last.current = read.data;
  if (of === 'organisation' && !isOperator()) return ownOffers(query.text, command);
  const { items, next, total } = last.current;
  const isOld = isSearched && (read.data === undefined || text !== query.text);
  return { items, isMore: next !== undefined, total, isOld };
}

function ownOffers(text: string, command: string | undefined): Offers {
  const own = (me.value?.organisations ?? []).filter(
    ({ id, name }) =>
      (command === undefined || may(command, id)) &&
      `${id} ${name}`.toLowerCase().includes(text.toLowerCase()),
  );
  return {
    items: own.slice(0, offeredMax),
    isMore: own.length > offeredMax,
    total: own.length,
    isOld: false,
  };
}

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), settleMs);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
