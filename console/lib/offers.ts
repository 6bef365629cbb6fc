/** Suggests organisations for a chooser: the first ones that the admin API finds for a text. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { useKnown } from './organisations.ts';
import { useRead } from './read.ts';
import { isOperator, may, me } from './session.ts';

export interface Offer {
  readonly id: string;
  readonly name?: string | undefined;
}

export interface Offers {
  readonly items: readonly Offer[];
  readonly isMore: boolean;
  /** Number of all matches, if it is known. */
  readonly total?: number | undefined;
  /** Whether the suggestions are for an earlier text, because the current one has not been searched yet. */
  readonly isOld: boolean;
}

export interface OfferQuery {
  readonly text: string;
  /** Restricts the suggestions to organisations in which the signed-in person may use this command. */
  readonly command?: string | undefined;
}

export const offeredMax = 20;
/** Delay in ms during which further typing is combined into one search. */
const settleMs = 150;

/** Returns suggestions for the text. Operators search all organisations while the chooser is open; members see their own. */
export function useOffers({ text, command }: OfferQuery, isOpen: boolean): Offers {
  const settled = useSettled(text);
  const name = isOpen && isOperator() ? 'organisation.list' : undefined;
  // The search covers the present even if the page shows the past, so it also finds organisations that are new since then.
  const { data } = useRead(name, { text: settled, limit: offeredMax }, { isOfNow: true });
  useKnown(data?.items);
  const last = useRef(data);
  if (data) last.current = data;
  if (!isOperator()) return ownOffers(text, command);
  const { items = [], next, total } = last.current ?? {};
  return { items, isMore: next !== undefined, total, isOld: data === undefined || settled !== text };
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
